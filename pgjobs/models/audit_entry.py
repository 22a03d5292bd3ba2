"""The audit trail: what people did, by a page, a command or a function of SQL."""

import getpass
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import models
from django.db.models.functions import Now
from django.utils.translation import gettext_lazy as _

from ..base.queue_database import QueueManager
from ..base.texts import storable
from ..exceptions import AlreadyEnqueued, InvalidTask
from .table import Table

# They are raised before anything has changed.
REFUSALS = (AlreadyEnqueued, InvalidTask)
LONGEST_ACTOR = 200
LONGEST_TEXT = 2_000


class Via(models.TextChoices):
    PAGE = "page", _("page")
    COMMAND = "command", _("command")
    SQL = "SQL", _("SQL")


class AuditManager(QueueManager):
    @contextmanager
    def audited(
        self,
        actor: str,
        via: Any,
        act: str,
        model: str,
        object_id: int | None = None,
        chosen: str = "",
        note: str = "",
    ) -> "Iterator[AuditEntry]":
        """Write an entry before an act, and afterwards its `number`.

        So an act that is cut off in its middle has an entry, too. One that changes
        nothing leaves none.
        """
        entry = self.create(
            actor=storable(actor, LONGEST_ACTOR),
            via=via,
            act=act,
            model=model,
            object_id=object_id,
            chosen=storable(chosen, LONGEST_TEXT),
            note=storable(note, LONGEST_TEXT),
        )
        try:
            yield entry
        except REFUSALS:
            entry.number = 0
            raise
        except Exception:
            entry.failed = True
            raise
        finally:
            entry.finish()


class AuditEntry(Table):
    """One act of a person, on one row or on many."""

    at = models.DateTimeField(
        _("time"), db_default=Now(), db_comment="When the act began."
    )
    actor = models.CharField(
        _("who"),
        max_length=LONGEST_ACTOR,
        db_comment="Who acted: a user of the admin, user@host of a command, or a role "
        "of the database.",
    )
    via = models.CharField(
        _("by"),
        max_length=10,
        choices=Via,
        db_comment="How: page (of the admin), command or SQL.",
    )
    act = models.CharField(
        _("act"), max_length=50, db_comment="The verb, such as retry."
    )
    model = models.CharField(
        _("on"), max_length=50, db_comment="What was acted on, such as job or queue."
    )
    object_id = models.BigIntegerField(
        _("id"),
        null=True,
        blank=True,
        db_comment="Id of the row. NULL: there were several, or the row was new.",
    )
    number = models.BigIntegerField(
        _("how many"),
        null=True,
        blank=True,
        db_comment="How many rows were changed. NULL while the act goes on, and for "
        "ever if it was cut off.",
    )
    chosen = models.TextField(
        _("chosen by"),
        db_default="",
        default="",
        blank=True,
        db_comment="The ids or the filter by which several rows were chosen.",
    )
    note = models.TextField(
        _("note"),
        db_default="",
        default="",
        blank=True,
        db_comment="The reason that the person gave.",
    )

    objects = AuditManager()

    failed = False

    class Meta:
        verbose_name = _("audit entry")
        verbose_name_plural = _("audit entries")
        db_table_comment = (
            "What people did, by a page of the admin, a command or a function of SQL."
        )
        default_permissions = ("view",)
        indexes = [models.Index("at", name="pgjobs_auditentry_at")]

    def __str__(self) -> str:
        return f"{self.actor}: {self.act} {self.model}"

    def finish(self) -> None:
        """Store how many rows the act has changed."""
        stored = AuditEntry.objects.using(self._state.db).filter(pk=self.pk)
        if self.number == 0:
            stored.delete()
        elif not self.failed:
            stored.update(number=self.number, object_id=self.object_id)


def person_at_terminal() -> str:
    """Return who runs a command, as the machine knows it."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        name = "?"
    return f"{name}@{socket.gethostname()}"
