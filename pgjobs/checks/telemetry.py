"""System checks on what the settings put around jobs."""

import logging
from collections.abc import Iterator
from contextvars import ContextVar

from django.apps import apps
from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from ..conf import problems, settings
from ..queue import meta
from ..tasks.middleware import is_only_async, loaded
from ..tasks.registry import registry

NOT_OWN = {"django", "pgjobs"}  # loggers whose levels say nothing of the project's


@register("pgjobs")
def check_middleware(**kwargs) -> list[CheckMessage]:
    """Check that each middleware can be imported and serves all tasks."""
    if any(problems()):
        return []
    return [each for path in settings.MIDDLEWARE for each in middleware_problems(path)]


def middleware_problems(path: str) -> Iterator[CheckMessage]:
    try:
        found = loaded(path)
    except ImproperlyConfigured as error:
        yield Error(
            str(error),
            hint="A worker would not start. Name a function by its dotted path.",
            id="pgjobs.E060",
        )
        return
    plain = [task.name for task in registry.tasks.values() if not task.is_async]
    if is_only_async(found) and plain:
        yield Warning(
            f"PGJOBS['MIDDLEWARE'] names {path!r}, which is only async, and "
            f"{len(plain)} tasks are plain functions, {min(plain)} for instance.",
            hint="Their attempts fail. Decorate it with @contextmanager, which serves "
            "async tasks, too.",
            id="pgjobs.W061",
        )


@register("pgjobs")
def check_meta(**kwargs) -> list[CheckMessage]:
    """Check that what jobs take along can be imported, and has one name each."""
    if any(problems()):
        return []
    variables: dict[str, str] = {}
    return [each for path in settings.META for each in meta_problems(path, variables)]


def meta_problems(path: str, variables: dict[str, str]) -> Iterator[CheckMessage]:
    """Yield what is wrong with a source; `variables`: the paths so far, by name."""
    try:
        source = meta.source(path)
    except ImproperlyConfigured as error:
        hint = "Jobs are enqueued without it, and each of them logs an error."
        yield Error(str(error), hint=hint, id="pgjobs.E063")
        return
    if not isinstance(source, ContextVar):
        return
    other = variables.setdefault(source.name, path)
    if other != path:
        yield Error(
            f"PGJOBS['META'] names {other!r} and {path!r}, which are both context "
            f"variables called {source.name!r}.",
            hint="Rename one: ContextVar('another_name').",
            id="pgjobs.E064",
        )


@register("pgjobs")
def check_kept_logs(**kwargs) -> list[CheckMessage]:
    """Warn if jobs keep log records of a level that no logger makes."""
    if any(problems()):
        return []
    levels = {task.name: task.options.keeps_level for task in registry.tasks.values()}
    levels["PGJOBS['KEEP_LOGS']"] = settings.KEEP_LOGS
    return [
        Warning(
            f"{name} keeps log records from {logging.getLevelName(level)} on, but no "
            "logger makes any of that level.",
            hint="Lower the level in LOGGING: 'root': {'level': 'INFO', ...}.",
            id="pgjobs.W065",
        )
        for name, level in levels.items()
        if level is not None and level < lowest_level()
    ]


def lowest_level() -> int:
    """Return the lowest level of the root logger and of the project's own."""
    own = {config.name.partition(".")[0] for config in apps.get_app_configs()} - NOT_OWN
    levels = [
        each.level
        for name, each in logging.root.manager.loggerDict.items()
        if isinstance(each, logging.Logger) and name.partition(".")[0] in own
    ]
    return min(filter(None, [logging.root.level, *levels]), default=logging.NOTSET)
