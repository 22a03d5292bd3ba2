"""System checks of what PGJOBS["ALERTS"] says."""

from django.core.checks import CheckMessage, Error, register

from ...conf import problems
from .limits import faults


@register("pgjobs")
def check_alerts(**kwargs) -> list[CheckMessage]:
    """Check that PGJOBS["ALERTS"] names kinds that there are, and limits that fit."""
    if any(problems()):
        return []
    return [Error(each.message, hint=each.hint, id="pgjobs.E066") for each in faults()]
