"""What may hold unfinished jobs back: tables that only the database writes."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from .database import QueueManager


class Hold(models.Model):
    """What may hold an unfinished job back: its row follows the job's, by triggers.

    Its indexes would cost every job if they were the job table's. See
    migrations/0008_holding_back.py.
    """

    class State(models.TextChoices):
        ARRIVING = "arriving", _("was enqueued by a transaction that goes on")
        PLACE = "place", _("has its place: is ready or runs")
        PREDECESSOR = "predecessor", _("waits for its predecessors")
        DEPENDENCY = "dependency", _("waits for its dependencies")
        LOCK = "lock", _("waits for its lock")
        LIMIT = "limit", _("waits for its limit")
        RATE = "rate", _("waits for its rate")
        ASIDE = "aside", _("stands aside: no worker serves its queue")
        LATER = "later", _("is scheduled")

    job_id = models.BigIntegerField(primary_key=True)
    state = models.CharField(max_length=11, choices=State)
    priority = models.SmallIntegerField()
    lock = models.CharField(max_length=500, null=True)  # noqa: DJ001
    is_ordered = models.BooleanField(db_default=True)
    limit_key = models.CharField(max_length=500, null=True)  # noqa: DJ001
    max_running = models.IntegerField(null=True)
    rate_key = models.CharField(max_length=500, null=True)  # noqa: DJ001
    # Seconds for each job, and how many may start at once after a pause.
    rate_interval = models.FloatField(null=True)
    rate_burst = models.IntegerField(null=True)
    # Of a job that stands aside.
    queue_name = models.CharField(max_length=200, null=True)  # noqa: DJ001
    # When the rate may have a token for it: exact for the first in line.
    opens_at = models.DateTimeField(null=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        default_permissions = ()
        indexes = [
            models.Index(
                "lock",
                "job_id",
                condition=Q(is_ordered=True, lock__isnull=False),
                name="pgjobs_hold_lock_order",
            ),
            models.Index(
                "lock",
                "is_ordered",
                "job_id",
                condition=Q(state__in=["lock", "arriving"]),
                name="pgjobs_hold_lock_line",
            ),
            models.Index(
                "limit_key",
                condition=Q(state__in=["place", "arriving"], limit_key__isnull=False),
                name="pgjobs_hold_limit_place",
            ),
            models.Index(
                "limit_key",
                F("priority").desc(),
                "job_id",
                condition=Q(state="limit"),
                name="pgjobs_hold_limit_line",
            ),
            models.Index(
                "rate_key",
                F("priority").desc(),
                "job_id",
                condition=Q(state="rate"),
                name="pgjobs_hold_rate_line",
            ),
            models.Index(
                "queue_name", condition=Q(state="aside"), name="pgjobs_hold_aside"
            ),
            models.Index(
                "opens_at", condition=Q(state="rate"), name="pgjobs_hold_rate_due"
            ),
        ]
        constraints = [
            # The last line: whatever goes wrong, no two jobs of a lock can run.
            models.UniqueConstraint(
                fields=["lock"],
                condition=Q(state="place", lock__isnull=False),
                name="pgjobs_hold_lock_place",
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.job_id}: {self.state}"


class Rate(models.Model):
    """How many tokens of a rate are left; no row: all."""

    key = models.CharField(max_length=500, primary_key=True)
    # When all tokens will be back. One comes back each interval.
    full_at = models.DateTimeField()

    objects = QueueManager()

    class Meta:
        verbose_name = _("rate")
        verbose_name_plural = _("rates")
        default_permissions = ()

    def __str__(self) -> str:
        return self.key


class Unsettled(models.Model):
    """A predecessor or batch about whose end somebody has still to be told.

    Who commits does not wait for those who hold the rows of the jobs: he leaves this
    note to the workers.
    """

    kind = models.CharField(max_length=11)  # predecessor or batch
    key = models.CharField(max_length=20)  # its id

    objects = QueueManager()

    class Meta:
        verbose_name = _("unsettled key")
        verbose_name_plural = _("unsettled keys")
        default_permissions = ()
        indexes = [models.Index("kind", "key", name="pgjobs_unsettled_key")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
