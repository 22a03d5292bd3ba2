"""The tables of moves: jobs on their way to another database."""

from uuid import uuid4

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ...base.queue_database import QueueManager
from ...fields import LenientDecoder
from ...models.table import Table


class Move(Table):
    """A move of rows to another database; both databases have a row of this table.

    The source deletes its row with the last parcel. The destination keeps its row,
    which says that everything has arrived.
    """

    id = models.UUIDField(
        primary_key=True, default=uuid4, db_comment="The same in both databases."
    )
    source = models.TextField(
        _("from"), db_comment="Alias of the database that the rows leave."
    )
    destination = models.TextField(
        _("to"), db_comment="Alias of the database that they go to."
    )
    selection = models.TextField(
        _("selection"),
        db_comment="Which rows move: their arguments and queues, as JSON.",
    )
    begun_at = models.DateTimeField(
        _("begun at"), db_default=Now(), db_comment="When the row was inserted."
    )
    sealed_at = models.DateTimeField(
        _("sealed at"),
        null=True,
        db_comment="From then on nothing is added to it. NULL before.",
    )
    arrived_at = models.DateTimeField(
        _("arrived at"),
        null=True,
        db_comment="When everything arrived, in the destination. NULL in the source.",
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("move")
        verbose_name_plural = _("moves")
        db_table_comment = (
            "Moves of rows to another database. Only the destination keeps its row."
        )
        default_permissions = ("view",)

    def __str__(self) -> str:
        return f"{self.selection}: {self.source} -> {self.destination}"


class Parcel(Table):
    """A row that has left its table, and waits for its arrival elsewhere."""

    move = models.ForeignKey(
        Move, models.CASCADE, related_name="parcels", db_comment="The move."
    )
    table = models.TextField(_("table"), db_comment="The table that the row has left.")
    content = models.JSONField(
        _("content"), decoder=LenientDecoder, db_comment="The row, as a JSON object."
    )

    objects = QueueManager()

    class Meta:
        verbose_name = _("parcel")
        verbose_name_plural = _("parcels")
        db_table_comment = (
            "Rows that have left their tables and wait for their arrival in another "
            "database."
        )
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.table} of {self.move_id}"
