"""System checks of a backend; Django asks each one in `TASKS`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured
from django.db import connections

from ..exceptions import InvalidTask

if TYPE_CHECKING:
    from .backend import PgJobsBackend


def problems(backend: "PgJobsBackend") -> Iterator[CheckMessage]:
    """Yield what keeps the tasks of a backend from being run."""
    where = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("pgjobs"):
        message = f"{where} needs the app pgjobs."
        hint = "Add 'pgjobs' to INSTALLED_APPS."
        yield Error(message, hint=hint, id="pgjobs.E050")
        return
    try:
        backend.adoptions.check_settings()
    except (InvalidTask, ImproperlyConfigured) as error:
        hint = "OPTIONS takes the options of pgjobs' @task, 'tasks' and 'database'."
        yield Error(f"{where}: {error}", hint=hint, id="pgjobs.E051")
        return
    yield from database_problems(backend, where)
    yield from unknown_paths(backend, where)


def database_problems(backend: "PgJobsBackend", where: str) -> Iterator[CheckMessage]:
    alias = backend.adoptions.database
    if alias is None:
        return  # pgjobs checks PGJOBS["DATABASE"] itself
    if alias not in connections:
        message = (
            f"{where} names the database {alias!r}, which DATABASES does not have."
        )
        hint = f"DATABASES has {', '.join(sorted(connections))}."
        yield Error(message, hint=hint, id="pgjobs.E052")
    elif connections[alias].vendor != "postgresql":
        message = f"{where} names the database {alias!r}, which is not PostgreSQL."
        yield Error(message, id="pgjobs.E053")


def unknown_paths(backend: "PgJobsBackend", where: str) -> Iterator[CheckMessage]:
    for path in sorted(backend.adoptions.by_task):
        if backend.adoptions.find_named(path) is None:
            yield Warning(
                f"{where}: OPTIONS['tasks'] names {path!r}, where no task is.",
                hint="Write the path as the task's module_path has it.",
                id="pgjobs.W054",
            )
