"""The steps that a job has done, and their results."""

from typing import NamedTuple

from django.db import connections, models
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..fields import LenientDecoder
from ..sql import statement
from .job import Job

LONGEST_NAME = 200


class Step(models.Model):
    """A part of a job that is done once per life, and what it returned."""

    # The constraint is in database/tables/jobs.sql, as that of attempts.
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


class Marked(NamedTuple):
    """What became of a mark: whose it is when it was not written."""

    is_owner: bool
    is_written: bool


def results_of(database: str, job_id: int, life: int) -> dict[str, str | None]:
    """Return the results, as JSON text, of the steps done in this life, by name."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement("steps"), {"job_id": job_id, "life": life})
        return dict(cursor.fetchall())


def mark(
    database: str, job_id: int, lease_token: int, name: str, return_value: str | None
) -> Marked:
    """Note that a step is done, in the caller's transaction if there is one."""
    with connections[database].cursor() as cursor:
        cursor.execute(
            statement("mark_step"),
            {
                "job_id": job_id,
                "lease_token": lease_token,
                "name": name,
                "return_value": return_value,
            },
        )
        return Marked._make(cursor.fetchone())
