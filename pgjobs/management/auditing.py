"""The audit trail of what people do by commands."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError

from ..models.audit_entry import AuditEntry, Via, person_at_terminal


@contextmanager
def audited(alias: str, act: str, model: str, **what) -> Iterator[AuditEntry]:
    """Write an act of the person at the terminal: see `AuditManager.audited`.

    A command that refuses has changed nothing, and leaves no entry.
    """
    entries = AuditEntry.objects.db_manager(alias)
    with entries.audited(
        person_at_terminal(), Via.COMMAND, act, model, **what
    ) as entry:
        try:
            yield entry
        except CommandError:
            entry.number = 0
            raise
