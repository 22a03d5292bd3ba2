"""What jobs wait for, the answers that they get, and what is still to be looked at."""

from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager, QueueSet
from ...fields import LenientDecoder
from ...models.job import Job
from ...models.table import Table
from ..steps.running_job import LONGEST_NAME
from . import queue
from .answering import refusal
from .links import answer_url

MOST_LISTED = 1_000  # waits for a user, of which people look at some


class Kind(models.TextChoices):
    """What a wait waits for. The values are those of `Job.waiting_for`."""

    ANSWER = "answer", _("an answer")
    EVENT = "event", _("an event")
    JOBS = "jobs", _("other jobs")


class WaitQuerySet(QueueSet["Wait"]):
    """Waits to look at."""

    def answerable_by(self, user: Any, most: int = MOST_LISTED):
        """Filter the oldest waits that this user may answer now, the oldest first.

        - `user`: whose permissions decide, as for `job.answer(by=user)`.
        - `most`: how many at most; more are not looked for.

        Two queries find them at once. The result is a query set of its own.
        """
        asked_for = queue.asked_permissions(self.db)
        permissions = [each for each in asked_for if not refusal(user, each)]
        ids = queue.answerable(self.db, permissions, most) if permissions else []
        return self.filter(pk__in=ids).order_by("opened_at", "pk")


class WaitManager(QueueManager.from_queryset(WaitQuerySet)):  # type: ignore[misc]
    pass


class Wait(Table):
    """One of the ways in which a wait of a job may end."""

    # A trigger deletes them with their job, like steps.
    job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        related_name="waits",
        db_constraint=False,
        db_index=False,
        db_comment="The job.",
    )
    life = models.IntegerField(_("life"), db_comment="The job's life at that time.")
    name = models.CharField(
        _("name"), max_length=LONGEST_NAME, db_comment="Name of the wait in the task."
    )
    label = models.CharField(
        _("label"),
        max_length=LONGEST_NAME,
        blank=True,
        db_default="",
        db_comment="Which of several ways it is. Empty: there is only this one.",
    )
    kind = models.CharField(
        _("waits for"),
        max_length=10,
        choices=Kind,
        db_comment="answer, event or jobs.",
    )
    event = models.CharField(  # noqa: DJ001
        _("event"),
        max_length=LONGEST_NAME,
        null=True,
        db_comment="Name of the event, or a pattern such as order.*. NULL: another "
        "kind.",
    )
    aggregate_id = models.CharField(  # noqa: DJ001
        _("aggregate"),
        max_length=LONGEST_NAME,
        null=True,
        db_comment="What the event must be about. NULL: anything.",
    )
    asked = models.JSONField(
        _("asked"),
        decoder=LenientDecoder,
        null=True,
        db_comment="Of an answer, as JSON: schema, title, permission and whether "
        "anyone_with_link may answer. Of jobs: their ids.",
    )
    permission = models.CharField(  # noqa: DJ001
        _("permission"),
        max_length=LONGEST_NAME,
        null=True,
        db_comment="What a user needs who answers. NULL: another kind.",
    )
    deadline = models.DateTimeField(
        _("deadline"), db_comment="When the job goes on without it."
    )
    opened_at = models.DateTimeField(
        _("opened at"), db_default=Now(), db_comment="When the job began to wait."
    )
    ended_at = models.DateTimeField(
        _("ended at"),
        null=True,
        db_comment="When the job took what it waited for, or the time was over. NULL: "
        "it waits.",
    )
    # Of an event that was pruned it stays.
    event_id = models.BigIntegerField(
        null=True, db_comment="The event that it took. NULL: none."
    )
    # Whose code asked: see functions/resume.sql.
    worker_id = models.BigIntegerField(
        null=True, db_comment="The worker whose code asked. NULL: not known."
    )

    objects = WaitManager()

    class Meta:
        verbose_name = _("wait")
        verbose_name_plural = _("waits")
        db_table_comment = "What jobs wait for, or waited for."
        default_permissions = ()
        permissions = [("answer_job", _("Can answer what jobs ask"))]
        indexes = [
            models.Index(
                "event",
                "aggregate_id",
                "id",
                condition=Q(event__isnull=False, ended_at__isnull=True),
                name="pgjobs_wait_event",
            ),
            # What people may answer: see `WaitQuerySet.answerable_by`.
            models.Index(
                "permission",
                "opened_at",
                "id",
                condition=Q(permission__isnull=False, ended_at__isnull=True),
                name="pgjobs_wait_asked",
            ),
            # The events that are kept as long as the waits that took them.
            models.Index(
                "event_id",
                condition=Q(event_id__isnull=False),
                name="pgjobs_wait_taken",
            ),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "name", "label"], name="pgjobs_wait_once"
            ),
            # Two waits of one life never take the same event.
            models.UniqueConstraint(
                fields=["job", "life", "event_id"],
                condition=Q(event_id__isnull=False),
                name="pgjobs_wait_takes",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def answer_name(self) -> str:
        """The name by which it is answered: `job.answer(wait.answer_name, value)`."""
        return self.label or self.name

    @property
    def title(self) -> str:
        """The question, for people; the name if the task says nothing."""
        return str(self.said("title") or self.answer_name)

    @property
    def anyone_with_link(self) -> bool:
        """Whether the link is enough to answer."""
        return self.said("anyone_with_link") is True

    def answer_url(self) -> str:
        """Return the path of the page for the answer, as `Job.answer_url`."""
        return answer_url(self.job_id, self.life, self.answer_name)

    def said(self, name: str) -> Any:
        """Return a part of what is asked; SQL may have stored anything."""
        return self.asked.get(name) if isinstance(self.asked, dict) else None


class Answer(Table):
    """What somebody answered to a job, also before its task asked."""

    # A trigger deletes them with their job, like steps.
    job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        related_name="answers",
        db_constraint=False,
        db_index=False,
        db_comment="The job.",
    )
    life = models.IntegerField(_("life"), db_comment="The job's life at that time.")
    name = models.CharField(
        _("name"),
        max_length=LONGEST_NAME,
        db_comment="Name of the wait, or the label of one of its ways.",
    )
    value = models.JSONField(
        _("answer"), decoder=LenientDecoder, db_comment="The answer, as JSON."
    )
    answered_by = models.CharField(  # noqa: DJ001
        _("answered by"),
        max_length=LONGEST_NAME,
        null=True,
        db_comment="Primary key of the user who answered. NULL: code did.",
    )
    answered_at = models.DateTimeField(
        _("answered at"), db_default=Now(), db_comment="When it was given."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("answer")
        verbose_name_plural = _("answers")
        db_table_comment = "What was answered to jobs, each name once per life."
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "name"], name="pgjobs_answer_once"
            )
        ]

    def __str__(self) -> str:
        return self.name


class AwaitedEvent(Table):
    """An event of a name for which some task waits."""

    id = None
    # The constraint of the event stands in database/tables/durable.sql.
    event_id = models.BigIntegerField(
        primary_key=True, db_comment="The event. It is deleted with this row's event."
    )
    name = models.CharField(
        _("name"), max_length=LONGEST_NAME, db_comment="Name of the event."
    )
    aggregate_id = models.CharField(  # noqa: DJ001
        _("aggregate"),
        max_length=LONGEST_NAME,
        null=True,
        db_comment="What it happened to. NULL: not said.",
    )
    cluster = models.BigIntegerField(
        db_comment="Number of the server's cluster, in which the transaction counts."
    )
    transaction = models.BigIntegerField(
        db_comment="Id of the transaction that published it."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("awaited event")
        verbose_name_plural = _("awaited events")
        db_table_comment = "The events for which tasks may wait."
        default_permissions = ()
        indexes = [
            models.Index(
                "name",
                "aggregate_id",
                "cluster",
                "transaction",
                "event_id",
                name="pgjobs_awaited_aggregate",
            ),
            models.Index(
                "name",
                "cluster",
                "transaction",
                "event_id",
                name="pgjobs_awaited_name",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"


class WaitNote(Table):
    """A worker has to look whether a job, or an event, finds its counterpart."""

    due_at = models.DateTimeField(db_default=Now(), db_comment="When to look.")
    job_id = models.BigIntegerField(
        null=True, db_comment="The job that may wait. NULL: it is about an event."
    )
    event_id = models.BigIntegerField(
        null=True, db_comment="The event that jobs may wait for. NULL: about a job."
    )
    after = models.BigIntegerField(
        db_default=0,
        db_comment="Of an event: the last wait that was looked at. Of a job: -1 if its "
        "wait may close a circle.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("note of a wait")
        verbose_name_plural = _("notes of waits")
        db_table_comment = "Jobs and events whose counterpart may be there."
        default_permissions = ()
        indexes = [
            models.Index("due_at", "id", name="pgjobs_waitnote_due"),
            models.Index(
                "job_id", condition=Q(job_id__isnull=False), name="pgjobs_waitnote_job"
            ),
        ]

    def __str__(self) -> str:
        return f"#{self.job_id or self.event_id}"
