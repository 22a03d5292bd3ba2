"""The task of benchmarks/workers.py."""

from pgjobs import task


@task(name="benchmarks.noop")
def noop():
    pass
