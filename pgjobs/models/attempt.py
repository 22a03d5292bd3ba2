from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job


class Attempt(models.Model):
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
    )
    life = models.IntegerField(_("life"))
    number = models.IntegerField(_("number"))
    worker_name = models.TextField(_("worker"))
    started_at = models.DateTimeField(_("started at"), null=True)
    finished_at = models.DateTimeField(_("finished at"))
    outcome = models.CharField(_("outcome"), max_length=10, choices=Outcome)
    exception_class = models.TextField(_("exception"), db_default="")
    message = models.TextField(_("message"), db_default="")
    traceback = models.TextField(_("traceback"), db_default="")

    objects = QueueManager()

    class Meta:
        verbose_name = _("attempt")
        verbose_name_plural = _("attempts")
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "number"], name="pgjobs_attempt_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.job_id}:{self.life}:{self.number}"
