"""The models, for modules that are imported before the apps are ready.

Projects import tasks in their settings, in `apps.py` and beside their models. Models
cannot be imported so early. So they are attributes of this module, and looked up when
they are used: `tables.Job.objects`.
"""

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured

if TYPE_CHECKING:
    from ..models import (
        Batch,
        Event,
        Job,
        Schedule,
        Subscription,
        TaskDefinition,
    )

    __all__ = ["Batch", "Event", "Job", "Schedule", "Subscription", "TaskDefinition"]


def refuse_missing_app(error: RuntimeError) -> None:
    if apps.apps_ready and not apps.is_installed("pgjobs"):
        raise ImproperlyConfigured(
            "'pgjobs' is missing in INSTALLED_APPS. Add it, and run "
            "'manage.py migrate pgjobs'."
        ) from error


def __getattr__(name: str) -> Any:
    try:
        from .. import models
    except RuntimeError as error:
        refuse_missing_app(error)
        raise
    return getattr(models, name)
