"""The steps that a job has done, and their results."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..fields import LenientDecoder
from ..queue.steps import LONGEST_NAME
from .job import Job


class Step(models.Model):
    """A part of a job that is done once per life, and what it returned."""

    # A trigger deletes steps with their job, like attempts.
    job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        related_name="steps",
        db_constraint=False,
        db_index=False,
    )
    life = models.IntegerField(_("life"))
    name = models.CharField(_("name"), max_length=LONGEST_NAME)
    return_value = models.JSONField(_("result"), decoder=LenientDecoder, null=True)
    attempt = models.IntegerField(_("attempt"))
    finished_at = models.DateTimeField(_("finished at"))

    objects = QueueManager()

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "name"], name="pgjobs_step_once"
            )
        ]

    def __str__(self) -> str:
        return self.name
