"""What may hold unfinished jobs back: tables that only the database writes."""

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from ..exceptions import LONGEST_DELAY
from .database import QueueManager


class Hold(models.Model):
    """What may hold an unfinished job back: its row follows the job's, by triggers.

    Its indexes would cost every job if they were the job table's. See
    migrations/0005_holding_back.py.
    """

    class State(models.TextChoices):
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
                condition=Q(state="lock"),
                name="pgjobs_hold_lock_line",
            ),
            models.Index(
                "limit_key",
                condition=Q(state="place", limit_key__isnull=False),
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
            models.CheckConstraint(
                name="pgjobs_hold_keys",
                condition=~Q(lock="")
                & ~Q(limit_key="")
                & ~Q(rate_key="")
                & (
                    Q(lock__isnull=False)
                    | Q(limit_key__isnull=False)
                    | Q(rate_key__isnull=False)
                ),
            ),
            models.CheckConstraint(
                name="pgjobs_hold_limit",
                condition=Q(limit_key__isnull=True, max_running__isnull=True)
                | Q(
                    limit_key__isnull=False,
                    max_running__isnull=False,
                    max_running__gte=1,
                ),
            ),
            models.CheckConstraint(
                name="pgjobs_hold_rate",
                condition=Q(
                    rate_key__isnull=True,
                    rate_interval__isnull=True,
                    rate_burst__isnull=True,
                )
                | Q(
                    rate_key__isnull=False,
                    rate_interval__isnull=False,
                    rate_interval__gt=0,
                    rate_interval__lte=LONGEST_DELAY / F("rate_burst"),
                    rate_burst__isnull=False,
                    rate_burst__gte=1,
                ),
            ),
            models.CheckConstraint(
                name="pgjobs_hold_state",
                condition=Q(state__in=["place", "predecessor", "dependency", "later"])
                | Q(state="aside", queue_name__isnull=False)
                | Q(state="lock", lock__isnull=False)
                | Q(state="limit", limit_key__isnull=False)
                | Q(state="rate", rate_key__isnull=False, opens_at__isnull=False),
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
