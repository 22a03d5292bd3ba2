from django.db import models
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from .table import Table

LONGEST_NAME = 200  # that is shown: SQL may have stored any
QUIET, STOP = "quiet", "stop"  # what operators want of a worker


class Worker(Table):
    """One live process of `runjobs`. A worker without a row counts as dead."""

    name = models.TextField(
        _("name"),
        db_comment="Name of the worker: host:pid, unless --name gives another one.",
    )
    host = models.TextField(_("host"), db_comment="Name of its host.")
    pid = models.IntegerField(_("process id"), db_comment="Id of its process.")
    queues = models.TextField(
        _("queues"),
        blank=True,
        help_text=_("Empty: all."),
        db_comment="The queues that it serves, separated by commas. Empty: all but "
        "excluded.",
    )
    excluded = models.TextField(
        _("all queues but"),
        blank=True,
        db_comment="The queues that it does not serve, separated by commas. Empty: "
        "none.",
    )
    slots = models.IntegerField(
        _("slots"), db_comment="How many jobs it runs at a time."
    )
    units = models.BigIntegerField(
        _("process units of the host"),
        null=True,
        blank=True,
        db_comment="How many process units the jobs of all workers of its host may "
        "take. NULL: it ignores units.",
    )
    started_at = models.DateTimeField(
        _("started at"), db_comment="When its row was inserted."
    )
    heartbeat_at = models.DateTimeField(
        _("last sign of life"), db_comment="Its last sign of life."
    )
    # A worker judges others only by the time in which it was alive itself, so that
    # after an outage no worker is taken for dead.
    beating_since = models.DateTimeField(
        _("beating since"),
        db_comment="Since when its signs of life never paused.",
    )
    lease_until = models.DateTimeField(
        _("lease until"), db_comment="After this it counts as dead."
    )
    heartbeat_interval = models.FloatField(
        _("heartbeat interval in seconds"),
        db_comment="Seconds between two signs of life.",
    )
    holds_session_lock = models.BooleanField(
        _("holds a session lock"),
        db_comment="Whether it holds a session lock that dies with its process (no "
        "pooler between).",
    )
    lock_key = models.BigIntegerField(
        _("key of the session lock"),
        null=True,
        blank=True,
        db_comment="Key of its session lock. NULL: none, or the one of release 0.9.0, "
        "whose workers notice later that their sessions have ended.",
    )
    unlocked_at = models.DateTimeField(
        _("without a session lock since"),
        null=True,
        blank=True,
        db_comment="When another worker saw that nobody holds its session lock. A sign "
        "of life after that voids it.",
    )
    leads_until = models.DateTimeField(
        _("leads until"),
        null=True,
        blank=True,
        db_comment="Until then the other workers leave the upkeep to this one. NULL: "
        "they do not.",
    )
    version = models.CharField(
        _("version"),
        max_length=200,
        db_default="",
        default="",
        blank=True,
        db_comment="Version of its code: the setting VERSION. Empty: not set.",
    )
    memory = models.BigIntegerField(
        _("memory in bytes"),
        null=True,
        blank=True,
        db_comment="Memory of its process in bytes, at the last sign of life. NULL "
        "before the first.",
    )
    children = models.JSONField(
        _("processes of isolated jobs"),
        null=True,
        blank=True,
        db_comment="Its processes of isolated jobs, at the last sign of life: busy, "
        "idle, memory in bytes, and how many died, by cause. NULL: it had none yet.",
    )

    wanted = models.TextField(
        _("wanted"),
        db_default="",
        default="",
        blank=True,
        db_comment="What operators want of it: quiet (it claims no more) or stop. "
        "Empty: nothing.",
    )

    # No constraint: the manifest may be gone.
    manifest_id = models.BigIntegerField(
        _("manifest"),
        null=True,
        blank=True,
        db_comment="The manifest of what its code declares. NULL: it has stored none.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("worker")
        verbose_name_plural = _("workers")
        db_table_comment = (
            "Live processes of runjobs. One without a row counts as dead."
        )
        default_permissions = ("view",)
        permissions = [("order_worker", _("Can quiet and stop workers"))]

    def __str__(self) -> str:
        return self.name[:LONGEST_NAME]

    def serves(self, queue_name: str) -> bool:
        """Whether the worker takes jobs of this queue."""
        if self.wanted:
            return False
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
