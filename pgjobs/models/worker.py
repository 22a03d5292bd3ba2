from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager

LONGEST_NAME = 200  # that is shown: SQL may have stored any


class Worker(models.Model):
    """One live process of `runjobs`. A worker without a row counts as dead."""

    name = models.TextField(_("name"))
    host = models.TextField(_("host"))
    pid = models.IntegerField(_("process id"))
    # Names separated by commas, which no name contains.
    queues = models.TextField(_("queues"), blank=True, help_text=_("Empty: all."))
    excluded = models.TextField(_("all queues but"), blank=True)
    slots = models.IntegerField(_("slots"))
    # What the jobs of all workers of the host may take. With NULL the worker ignores
    # units.
    units = models.BigIntegerField(
        _("process units of the host"), null=True, blank=True
    )
    started_at = models.DateTimeField(_("started at"))
    heartbeat_at = models.DateTimeField(_("last sign of life"))
    # Since when the heartbeats never paused. A worker judges others only by the time in
    # which it was alive itself, so that after an outage no worker is taken for dead.
    beating_since = models.DateTimeField(_("beating since"))
    # After this the worker counts as dead, whatever else is known.
    lease_until = models.DateTimeField(_("lease until"))
    heartbeat_interval = models.FloatField(_("heartbeat interval in seconds"))
    # Whether it holds a session lock that dies with its process (no pooler between).
    holds_session_lock = models.BooleanField(_("holds a session lock"))
    # Of the code: PGJOBS["VERSION"].
    version = models.CharField(
        _("version"), max_length=200, db_default="", default="", blank=True
    )
    # Of its process, at the last sign of life; NULL before the first.
    memory = models.BigIntegerField(_("memory in bytes"), null=True, blank=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return self.name[:LONGEST_NAME]

    def serves(self, queue_name: str) -> bool:
        """Whether the worker takes jobs of this queue."""
        if self.queues:
            return queue_name in self.queues.split(",")
        return queue_name not in self.excluded.split(",")

    @property
    def described_queues(self) -> str:
        return described(self.queues, self.excluded)


def described(queues: str, excluded: str) -> str:
    """Return in words which queues a worker serves."""
    if queues:
        return queues.replace(",", ", ")
    if excluded:
        names = excluded.replace(",", ", ")
        return gettext("all but %(names)s") % {"names": names}
    return gettext("all")
