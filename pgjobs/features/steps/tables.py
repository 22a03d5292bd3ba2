"""The steps that a job has done, and their results."""

from django.db import models
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...conf import FINISHED
from ...fields import LenientDecoder
from ...models.job import Job
from ...models.job_set import JobQuerySet
from ...models.table import Table
from .running_job import LONGEST_NAME


class Step(Table):
    """A part of a job that is done once per life, and what it returned."""

    # A trigger deletes steps with their job, like attempts.
    job = models.ForeignKey(
        Job,
        models.DO_NOTHING,
        related_name="steps",
        db_constraint=False,
        db_index=False,
        db_comment="The job.",
    )
    life = models.IntegerField(_("life"), db_comment="The job's life at that time.")
    name = models.CharField(
        _("name"), max_length=LONGEST_NAME, db_comment="Name of the step in the task."
    )
    return_value = models.JSONField(
        _("result"),
        decoder=LenientDecoder,
        null=True,
        db_comment="What the step returned, as JSON. NULL: None.",
    )
    attempt = models.IntegerField(
        _("attempt"), db_comment="Number of the attempt that did it."
    )
    finished_at = models.DateTimeField(_("finished at"), db_comment="When it was done.")

    # Of all steps that one life has kept it is the same one: the job's key has it.
    kept_from = models.IntegerField(
        _("kept from"),
        null=True,
        db_comment="Life in which the first of the kept steps was done. NULL: this "
        "life did the step.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        db_table_comment = (
            "Parts of jobs that are done once per life, and what they returned."
        )
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["job", "life", "name"], name="pgjobs_step_once"
            )
        ]

    def __str__(self) -> str:
        return self.name


def number_without(jobs: JobQuerySet, name: str) -> int:
    """Count the finished jobs of a set whose life has not done this step."""
    step = Step.objects.filter(job_id=OuterRef("pk"), life=OuterRef("life"), name=name)
    finished = Job.objects.using(jobs.db).filter(status__in=FINISHED)
    return finished.filter(~Exists(step), pk__in=jobs.values("pk")).count()
