"""The tasks of benchmarks/schedules.py."""

from pgjobs import task


@task(name="benchmarks.tick")
def tick():
    pass
