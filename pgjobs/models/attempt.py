from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job
from .table import Table


class Attempt(Table):
    """One execution of a job that did not succeed."""

    class Outcome(models.TextChoices):
        FAILED = "FAILED", _("Failed")
        CRASHED = "CRASHED", _("Worker lost")
        RELEASED = "RELEASED", _("Released")
        SNOOZED = "SNOOZED", _("Snoozed")
        CANCELLED = "CANCELLED", _("Cancelled")

    # A trigger deletes attempts with their job (database/functions/jobs/
    # jobs_deleted.sql), also by SQL, and Django need not load them for that.
    job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        related_name="attempts_made",
        db_constraint=False,
        db_index=False,
        db_comment="The job.",
    )
    life = models.IntegerField(_("life"), db_comment="The job's life at that time.")
    number = models.IntegerField(
        _("number"), db_comment="1 for the first attempt of a life."
    )
    worker_name = models.TextField(
        _("worker"), db_comment="Name of the worker that had claimed it."
    )
    started_at = models.DateTimeField(
        _("started at"), null=True, db_comment="When it was claimed. NULL: unknown."
    )
    finished_at = models.DateTimeField(
        _("finished at"), db_comment="When its end was recorded."
    )
    outcome = models.CharField(
        _("outcome"),
        max_length=10,
        choices=Outcome,
        db_comment="FAILED, CRASHED (the worker was lost), RELEASED (back to the "
        "queue), SNOOZED or CANCELLED.",
    )
    exception_class = models.TextField(
        _("exception"),
        db_default="",
        db_comment="Class of the exception, with its module. Empty: there was none.",
    )
    message = models.TextField(
        _("message"), db_default="", db_comment="What happened, for people."
    )
    traceback = models.TextField(
        _("traceback"),
        db_default="",
        db_comment="Traceback of the exception. Empty: there was none.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        db_table_comment = (
            "Attempts of jobs that did not succeed. They are deleted with their job."
        )
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "number"], name="pgjobs_attempt_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.job_id}:{self.life}:{self.number}"
