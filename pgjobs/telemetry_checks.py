"""System checks on what the settings put around jobs."""

from collections.abc import Iterator

from django.core.checks import CheckMessage, Error, Warning, register
from django.core.exceptions import ImproperlyConfigured

from .conf import problems, settings
from .tasks import follow_ups
from .tasks.middleware import is_only_async, loaded
from .tasks.registry import registry

TAG = "pgjobs"


@register(TAG)
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
            id="pgjobs.E050",
        )
        return
    plain = [each.name for each in registry.tasks.values() if not each.is_async]
    if is_only_async(found) and plain:
        yield Warning(
            f"PGJOBS['MIDDLEWARE'] names {path!r}, which is only async, and "
            f"{len(plain)} tasks are plain functions, {min(plain)} for instance.",
            hint="Their attempts fail. Decorate it with @contextmanager, which serves "
            "async tasks, too.",
            id="pgjobs.W051",
        )


@register(TAG)
def check_follow_ups(**kwargs) -> list[CheckMessage]:
    """Check that what follows a job's end can be enqueued, and comes to an end."""
    return [
        Error(message, hint=hint, obj=task, id="pgjobs.E052")
        for message, hint, task in follow_ups.faults()
    ]
