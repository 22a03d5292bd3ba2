"""Imported as a task module: the code after a deploy."""

from datetime import timedelta

from pgjobs import subscribe, task


@task(name="versions.both", every=timedelta(hours=3))
def both(region: str = "south", year: int = 2026): ...


@task(name="versions.only_new", every=timedelta(hours=2))
def only_new(number: int = 5): ...


@subscribe("version.noted")
@task(name="versions.handle", max_attempts=5)
def handle(): ...


@subscribe("version.noted")
@task(name="versions.handle_at_last")
def handle_at_last(): ...
