"""The values of a job's status, and of its other columns with few values."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Status(models.TextChoices):
    """The statuses of a job: what `Job.status` may be. The texts are for people."""

    # READY is an invariant: the job can run now. Whatever must not run is not READY.
    READY = "READY", _("Ready")
    SCHEDULED = "SCHEDULED", _("Scheduled")
    WAITING = "WAITING", _("Waiting")
    RUNNING = "RUNNING", _("Running")
    SUCCESSFUL = "SUCCESSFUL", _("Successful")
    FAILED = "FAILED", _("Failed")
    CANCELLED = "CANCELLED", _("Cancelled")


class WaitingFor(models.TextChoices):
    """The obstacle that a WAITING job waits for: the first one, in this order.

    The last three are no obstacles: its task has begun, and asked for them.
    """

    PREDECESSOR = "predecessor", _("its predecessors")
    DEPENDENCY = "dependency", _("its dependencies")
    GATE = "gate", _("a gate")
    LOCK = "lock", _("a lock")
    LIMIT = "limit", _("a free place")
    RATE = "rate", _("its rate")
    ANSWER = "answer", _("an answer")
    EVENT = "event", _("an event")
    JOBS = "jobs", _("other jobs")


class UniqueFor(models.TextChoices):
    """How long a job holds its unique key."""

    UNFINISHED = "unfinished", _("until it has ended")
    WAITING = "waiting", _("until it is started")
    PERIOD = "period", _("for a time, unless it fails or is cancelled")


QUEUED = (Status.READY, Status.SCHEDULED, Status.WAITING)
