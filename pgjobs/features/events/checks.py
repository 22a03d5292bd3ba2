"""A system check of how long events are kept."""

from django.core.checks import CheckMessage, Error, register

from ...conf import problems, settings


@register("pgjobs")
def check_events(**kwargs) -> list[CheckMessage]:
    """Check that events are kept as long as a task may still subscribe to them."""
    if any(problems()) or settings.EVENT_RETENTION is None:
        return []
    if settings.EVENT_RETENTION >= settings.UNHANDLED_EVENT_GRACE:
        return []
    message = (
        f"PGJOBS['EVENT_RETENTION'] is {settings.EVENT_RETENTION:g} s, less than "
        f"PGJOBS['UNHANDLED_EVENT_GRACE'], which is {settings.UNHANDLED_EVENT_GRACE:g}."
    )
    hint = "Events without a handler would be deleted before one can appear."
    return [Error(message, hint=hint, id="pgjobs.E022")]
