"""A system check of who may see the status of a job."""

from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from ...conf import problems
from .view import status_permission


@register("pgjobs")
def check_status_permission(**kwargs) -> list[CheckMessage]:
    """Check that PGJOBS["STATUS_PERMISSION"] names a function."""
    if any(problems()):
        return []
    try:
        status_permission()
    except ImproperlyConfigured as error:
        hint = "Name a function that takes a request and a job, and returns a bool."
        return [Error(str(error), hint=hint, id="pgjobs.E014")]
    return []
