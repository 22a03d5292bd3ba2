"""Imported as a task module: what only the workers with graphics cards import."""

from datetime import timedelta

from pgjobs import subscribe, task


@task(name="versions.render", every=timedelta(hours=1))
def render(): ...


@subscribe("version.noted")
@task(name="versions.show")
def show(): ...
