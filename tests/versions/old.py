"""Imported as a task module: the code before a deploy."""

from datetime import timedelta

from pgjobs import subscribe, task


@task(name="versions.both", every=timedelta(hours=1))
def both(region: str = "north"): ...


@task(name="versions.only_old", cron="0 3 * * *")
def only_old(): ...


@subscribe("version.noted")
@task(name="versions.handle", max_attempts=2)
def handle(): ...


@subscribe("version.noted")
@task(name="versions.handle_as_before")
def handle_as_before(): ...
