"""System checks of PGJOBS and INSTALLED_APPS."""

from django.apps import apps
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured

from ..conf import problems, settings
from ..views import status_permission


@register("pgjobs")
def check_settings(**kwargs) -> list[CheckMessage]:
    found = [
        Error(problem.message, hint=problem.hint, id="pgjobs.E001")
        for problem in problems()
    ]
    if found:
        return found
    if settings.LEASE_DURATION < 3 * settings.HEARTBEAT_INTERVAL:
        message = (
            f"PGJOBS['LEASE_DURATION'] is {settings.LEASE_DURATION:g} s, less than "
            f"three heartbeats of {settings.HEARTBEAT_INTERVAL:g} s."
        )
        hint = "A living worker that misses one or two would lose its jobs."
        return [Error(message, hint=hint, id="pgjobs.E002")]
    return []


@register("pgjobs")
def check_admin_actions(**kwargs) -> list[CheckMessage]:
    """Check that the admin's buttons can be drawn, where there is an admin."""
    names = [config.name for config in apps.get_app_configs()]
    if "django.contrib.admin" not in names:
        return []
    cure = "INSTALLED_APPS = ['admin_actions', 'django.contrib.admin', 'pgjobs', ...]"
    if "admin_actions" not in names:
        message = "'admin_actions' is missing in INSTALLED_APPS."
        return [Error(message, hint=cure, id="pgjobs.E009")]
    if names.index("admin_actions") > names.index("django.contrib.admin"):
        message = (
            "'admin_actions' stands after 'django.contrib.admin' in INSTALLED_APPS."
        )
        hint = f"Its templates would not be found, and buttons be missing: {cure}"
        return [Error(message, hint=hint, id="pgjobs.E010")]
    return []


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
