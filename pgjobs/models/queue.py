"""Queues: operators pause and limit them, and each claim looks that up."""

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager, QueueSet, database_of_acts
from .table import Table

NAME = RegexValidator(
    r"^[^,\x00-\x1f\x7f-\x9f]+\Z",
    _("Enter a name without commas and control characters."),
)


class QueueQuerySet(QueueSet["Queue"]):
    def pause(self) -> int:
        """Stop workers from claiming the queues' jobs; return how many changed."""
        return self.filter(paused_at=None).update(paused_at=Now())

    def resume(self) -> int:
        """Allow workers to claim the queues' jobs again; return how many changed."""
        return self.exclude(paused_at=None).update(paused_at=None)


class Queue(Table):
    """One queue. Its row is made when it is first used.

    A queue without a row has no limit. No job's status depends on it.
    """

    name = models.CharField(
        _("name"),
        max_length=200,
        unique=True,
        validators=[NAME],
        db_comment="Name of the queue.",
    )
    paused_at = models.DateTimeField(
        _("paused at"),
        null=True,
        blank=True,
        db_comment="Since when workers claim none of its jobs. NULL: it is not paused.",
    )
    max_running = models.IntegerField(
        _("most running jobs"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("Of all workers together. Empty: as many as there are slots."),
        db_comment="How many of its jobs all workers together run at a time. NULL: no "
        "limit.",
    )
    note = models.TextField(
        _("note"), db_default="", blank=True, db_comment="Text of operators."
    )

    objects = QueueManager.from_queryset(QueueQuerySet)()

    class Meta:
        verbose_name = _("queue")
        verbose_name_plural = _("queues")
        db_table_comment = (
            "Queues: a row is made at the first use. One without a row has no limit."
        )
        default_permissions = ("add", "change", "delete", "view")
        permissions = [("pause_queue", _("Can pause and resume queues"))]
        indexes = [
            # Each claim asks for these few.
            models.Index(
                "name",
                condition=Q(paused_at__isnull=False),
                name="pgjobs_queue_paused",
            ),
            models.Index(
                "name",
                condition=Q(max_running__isnull=False),
                name="pgjobs_queue_limited",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                name="pgjobs_queue_max_running", condition=Q(max_running__gte=1)
            )
        ]

    def __str__(self) -> str:
        return self.name

    def pause(self) -> bool:
        """Stop workers from claiming its jobs; return False if it was paused."""
        return self._act("pause")

    def resume(self) -> bool:
        """Let workers claim its jobs again; return False if it was not paused."""
        return self._act("resume")

    def _act(self, verb: str) -> bool:
        database = database_of_acts(self)
        this = Queue.objects.using(database).filter(pk=self.pk)
        changed = getattr(this, verb)() == 1
        self.refresh_from_db(using=database)
        return changed
