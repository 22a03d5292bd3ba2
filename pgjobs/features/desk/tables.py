"""Groups of errors, versions of the code, sums of what ended, and ended workers."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...fields import Histogram
from ...models.table import Table
from ...models.worker import LONGEST_NAME


class ErrorGroup(Table):
    """Failures of one task by one class of exceptions in one place of the code.

    The worker that records a failure makes the row: see failure.py.
    """

    id = models.BigIntegerField(
        primary_key=True,
        db_comment="Made of task, exception, place and message, so that all workers "
        "find the same group.",
    )
    first_at = models.DateTimeField(
        _("first"), db_default=Now(), db_comment="When it was first recorded."
    )
    version = models.CharField(
        _("version"),
        max_length=200,
        db_default="",
        default="",
        db_comment="Version of the code (setting VERSION) in which it happened last.",
    )
    muted_version = models.CharField(  # noqa: DJ001  (NULL: it is not muted)
        _("muted in version"),
        max_length=200,
        null=True,
        blank=True,
        db_comment="Version in which an operator muted it. NULL: it is not muted.",
    )
    task = models.CharField(_("task"), max_length=200, db_comment="Name of the task.")
    exception_class = models.TextField(
        _("exception"), db_comment="Class of the exception, with its module."
    )
    place = models.TextField(
        _("place"),
        db_comment="Module and function of the project in which it was raised.",
    )
    message = models.TextField(
        _("message"), db_comment="The message, with # for what differs from job to job."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("group of errors")
        verbose_name_plural = _("groups of errors")
        db_table_comment = (
            "Failures of one task by one class of exceptions in one place of the code."
        )
        default_permissions = ()
        permissions = [("mute_errorgroup", _("Can mute groups of errors"))]

    def __str__(self) -> str:
        return f"{self.exception_class}: {self.task}"

    @property
    def is_muted(self) -> bool:
        """Whether an operator muted the group, and no other version has it."""
        return self.muted_version == self.version


class CodeVersion(Table):
    """When a worker first ran a version of the code: `PGJOBS["VERSION"]`."""

    name = models.CharField(
        _("version"),
        max_length=200,
        unique=True,
        db_comment="The version: the setting VERSION.",
    )
    first_at = models.DateTimeField(
        _("first"), db_default=Now(), db_comment="When a worker first ran it."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("version of the code")
        verbose_name_plural = _("versions of the code")
        db_table_comment = "When a worker first ran each version of the code."
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


EMPTY_HISTOGRAM = models.Value("{}", models.TextField())


class Figure(Table):
    """The jobs of one queue and task whose attempts ended within a time.

    Workers count in memory and add up here now and then: see counting.py.
    """

    class Span(models.IntegerChoices):
        """The length of the time, in minutes."""

        MINUTE = 1, _("minute")
        HOUR = 60, _("hour")

    start = models.DateTimeField(
        _("start"), db_comment="Beginning of the minute or hour, by UTC."
    )
    seconds = models.FloatField(
        _("run time in seconds"),
        db_default=0,
        db_comment="Sum of the run times in seconds.",
    )
    successful = models.IntegerField(
        _("successful"), db_default=0, db_comment="How many attempts ended SUCCESSFUL."
    )
    failed = models.IntegerField(
        _("failed"),
        db_default=0,
        db_comment="How many attempts ended their job as FAILED.",
    )
    cancelled = models.IntegerField(
        _("cancelled"),
        db_default=0,
        db_comment="How many attempts ended their job as CANCELLED.",
    )
    retried = models.IntegerField(
        _("retried"),
        db_default=0,
        db_comment="How many attempts failed and were to be tried again.",
    )
    span = models.SmallIntegerField(
        _("span"), choices=Span, db_comment="Length of the time in minutes: 1 or 60."
    )
    queue_name = models.CharField(
        _("queue"),
        max_length=200,
        db_comment="The queue. Empty: those that a worker met beyond a thousand queues "
        "and tasks.",
    )
    task = models.CharField(
        _("task"),
        max_length=200,
        db_comment="Name of the task. Empty: see queue_name.",
    )
    run_times = Histogram(
        _("run times"),
        db_default=EMPTY_HISTOGRAM,
        default=list,
        db_comment="As release 0.9.0 counts attempts by run time: under 1 ms, under 2 "
        "ms, under 4 ms and so on; the last number has all others.",
    )
    wait_times = Histogram(
        _("waiting times"),
        db_default=EMPTY_HISTOGRAM,
        default=list,
        db_comment="Like run_times: the time since claimed jobs could run.",
    )
    run_buckets = Histogram(
        _("run times"),
        db_default=EMPTY_HISTOGRAM,
        default=list,
        db_comment="Pairs of a bucket and how many attempts ran for so long: bucket 0 "
        "is under 10 us, each further one reaches 1.2 times as far.",
    )
    wait_buckets = Histogram(
        _("waiting times"),
        db_default=EMPTY_HISTOGRAM,
        default=list,
        db_comment="Claimed jobs by the time since they could run, like run_buckets.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("figure")
        verbose_name_plural = _("figures")
        db_table_comment = (
            "How many attempts ended in a minute or hour, how, and how long they "
            "took. Workers add to it."
        )
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["span", "start", "queue_name", "task"],
                name="pgjobs_figure_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.task} {self.start}"


class End(models.TextChoices):
    """How a worker ended."""

    ASKED = "asked", _("Asked to stop")
    DRAINED = "drained", _("Nothing left to do")
    LIMIT = "limit", _("Reached its limit")
    MEMORY = "memory", _("Too much memory")
    LOST = "lost", _("Lost")


class EndedWorker(Table):
    """A worker that has ended. Rows are kept for a day, and no more than 1,000."""

    worker_id = models.BigIntegerField(
        _("number of the worker"), db_comment="Id that its row in pgjobs_worker had."
    )
    started_at = models.DateTimeField(
        _("started at"), db_comment="When the worker started."
    )
    ended_at = models.DateTimeField(
        _("ended at"),
        db_default=Now(),
        db_comment="When its row in pgjobs_worker was deleted.",
    )
    pid = models.IntegerField(_("process id"), db_comment="Id of its process.")
    how = models.CharField(
        _("how"),
        max_length=10,
        choices=End,
        db_comment="How it ended: asked, drained, limit, memory or lost.",
    )
    name = models.TextField(_("name"), db_comment="Name of the worker.")
    host = models.TextField(_("host"), db_comment="Name of its host.")
    queues = models.TextField(
        _("queues"), blank=True, db_comment="As in pgjobs_worker."
    )
    excluded = models.TextField(
        _("all queues but"), blank=True, db_comment="As in pgjobs_worker."
    )
    version = models.CharField(
        _("version"), max_length=200, blank=True, db_comment="Version of its code."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("ended worker")
        verbose_name_plural = _("ended workers")
        db_table_comment = "Workers that ended within a day."
        default_permissions = ()
        indexes = [models.Index("ended_at", name="pgjobs_endedworker_at")]

    def __str__(self) -> str:
        return self.name[:LONGEST_NAME]


class Acknowledgement(Table):
    """A problem or remark that somebody has seen, and that does not count meanwhile."""

    at = models.DateTimeField(
        _("time"), db_default=Now(), db_comment="When it was acknowledged."
    )
    until = models.DateTimeField(
        _("until"), db_comment="Until then the remark does not count."
    )
    kind = models.CharField(
        _("kind"), max_length=50, db_comment="Kind of the remark: see ALERTS."
    )
    subject = models.TextField(
        _("subject"),
        db_default="",
        default="",
        blank=True,
        db_comment="What the remark is about, such as a task. Empty: its kind has one.",
    )
    person = models.TextField(_("who"), db_comment="Who acknowledged it.")
    note = models.TextField(
        _("note"),
        db_default="",
        default="",
        blank=True,
        db_comment="The reason that the person gave.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("acknowledgement")
        verbose_name_plural = _("acknowledgements")
        db_table_comment = "Problems that people have seen, until a time."
        default_permissions = ()
        permissions = [("acknowledge_remark", _("Can acknowledge problems"))]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], name="pgjobs_acknowledgement_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"
