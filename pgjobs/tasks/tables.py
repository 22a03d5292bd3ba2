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


def __getattr__(name: str) -> Any:
    try:
        config = apps.get_app_config("pgjobs")
    except LookupError as error:
        raise ImproperlyConfigured(
            "'pgjobs' is missing in INSTALLED_APPS. Add it, and run "
            "'manage.py migrate pgjobs'."
        ) from error
    if config.models_module is None:  # the models of another app are still loaded
        config.import_models()
    return getattr(config.models_module, name)
