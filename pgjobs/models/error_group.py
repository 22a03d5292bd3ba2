"""Groups of errors: what failed in the same way, in the same place."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .table import Table


class ErrorGroup(Table):
    """Failures of one task by one class of exceptions in one place of the code.

    The worker that records a failure makes the row: see worker/slots/error_groups.py.
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
