"""The audit trail of what people do in the admin."""

from contextlib import AbstractContextManager

from ..models.audit_entry import AuditEntry, Via


def audited(
    request, act: str, model: str, id: int | None = None, **what
) -> AbstractContextManager[AuditEntry]:
    """Write an act of the request's user: see `AuditManager.audited`."""
    actor = request.user.get_username()
    return AuditEntry.objects.audited(actor, Via.PAGE, act, model, id, **what)
