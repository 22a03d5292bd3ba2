from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .job import Job


class Progress(models.Model):
    """What a running job reports. A row of its own spares the job's row the updates."""

    job = models.OneToOneField(
        Job,
        models.DO_NOTHING,
        primary_key=True,
        related_name="progress",
        db_constraint=False,
    )
    done = models.FloatField(_("done"), null=True)
    total = models.FloatField(_("total"), null=True)
    message = models.TextField(_("message"), db_default="")
    log = models.TextField(_("log"), db_default="")
    updated_at = models.DateTimeField(_("updated at"))

    objects = QueueManager()

    class Meta:
        verbose_name = _("progress")
        verbose_name_plural = _("progress")
        default_permissions = ()

    def __str__(self) -> str:
        if self.done is None:
            return self.message
        done = f"{self.done:g}"
        return done if self.total is None else f"{done}/{self.total:g}"
