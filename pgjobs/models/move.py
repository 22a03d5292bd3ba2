"""Moves: jobs on their way to another database (queue/moving.py)."""

from uuid import uuid4

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..fields import LenientDecoder


class Move(models.Model):
    """A move of rows to another database; both databases have a row of this table.

    The source deletes its row with the last parcel. The destination keeps its row,
    which says that everything has arrived.
    """

    id = models.UUIDField(primary_key=True, default=uuid4)
    source = models.TextField(_("from"))
    destination = models.TextField(_("to"))
    selection = models.TextField(_("selection"))
    begun_at = models.DateTimeField(_("begun at"), db_default=Now())
    # From then on nothing is added to it.
    sealed_at = models.DateTimeField(_("sealed at"), null=True)
    arrived_at = models.DateTimeField(_("arrived at"), null=True)

    objects = QueueManager()

    class Meta:
        verbose_name = _("move")
        verbose_name_plural = _("moves")
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.selection}: {self.source} -> {self.destination}"


class Parcel(models.Model):
    """A row that has left its table, and waits for its arrival elsewhere."""

    move = models.ForeignKey(Move, models.CASCADE, related_name="parcels")
    table = models.TextField(_("table"))
    content = models.JSONField(_("content"), decoder=LenientDecoder)

    objects = QueueManager()

    class Meta:
        verbose_name = _("parcel")
        verbose_name_plural = _("parcels")
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.table} of {self.move_id}"
