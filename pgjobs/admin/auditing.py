"""The audit trail of what people do in the admin."""

from contextlib import AbstractContextManager

from ..models import AuditEntry
from ..models.audit_entry import Via


def noting(
    request, act: str, model: str, id: int | None = None, **what
) -> AbstractContextManager[AuditEntry]:
    """Write an act of the request's user: see `AuditManager.noting`."""
    actor = request.user.get_username()
    return AuditEntry.objects.noting(actor, Via.PAGE, act, model, id, **what)
