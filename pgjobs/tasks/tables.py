"""The models, for modules that are imported before the apps are ready.

Projects import tasks in their settings, in `apps.py` and beside their models. Models
cannot be imported so early. So they are attributes of this module, and looked up when
they are used: `tables.Job.objects`.
"""

from typing import TYPE_CHECKING, Any

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
    from .. import models

    return getattr(models, name)
