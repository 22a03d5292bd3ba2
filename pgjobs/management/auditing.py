"""The audit trail of what people do by commands."""

from contextlib import AbstractContextManager

from ..models import AuditEntry
from ..models.audit_entry import Via, person_at_terminal


def noting(
    alias: str, act: str, model: str, **what
) -> AbstractContextManager[AuditEntry]:
    """Write an act of the person at the terminal: see `AuditManager.noting`."""
    entries = AuditEntry.objects.db_manager(alias)
    return entries.noting(person_at_terminal(), Via.COMMAND, act, model, **what)
