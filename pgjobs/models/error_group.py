"""Groups of errors: what failed in the same way, in the same place."""

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager


class ErrorGroup(models.Model):
    """Failures of one task by one class of exceptions in one place of the code.

    The worker that records a failure makes the row: see worker/slots/error_groups.py.
    """

    # Made of the other columns, so that all workers find the same one.
    id = models.BigIntegerField(primary_key=True)
    first_at = models.DateTimeField(_("first"), db_default=Now())
    # The version of the code in which it appeared last, and in which it is muted.
    version = models.CharField(_("version"), max_length=200, db_default="", default="")
    muted_version = models.CharField(  # noqa: DJ001  (NULL: it is not muted)
        _("muted in version"), max_length=200, null=True, blank=True
    )
    task = models.CharField(_("task"), max_length=200)
    exception_class = models.TextField(_("exception"))
    place = models.TextField(_("place"))  # module and function
    message = models.TextField(_("message"))  # without what differs from job to job

    objects = QueueManager()

    class Meta:
        verbose_name = _("group of errors")
        verbose_name_plural = _("groups of errors")
        default_permissions = ()
        permissions = [("mute_errorgroup", _("Can mute groups of errors"))]

    def __str__(self) -> str:
        return f"{self.exception_class}: {self.task}"

    @property
    def is_muted(self) -> bool:
        """Whether an operator muted the group, and no other version has it."""
        return self.muted_version == self.version


class CodeVersion(models.Model):
    """When a worker first ran a version of the code: `PGJOBS["VERSION"]`."""

    name = models.CharField(_("version"), max_length=200, unique=True)
    first_at = models.DateTimeField(_("first"), db_default=Now())

    objects = QueueManager()

    class Meta:
        verbose_name = _("version of the code")
        verbose_name_plural = _("versions of the code")
        default_permissions = ()

    def __str__(self) -> str:
        return self.name
