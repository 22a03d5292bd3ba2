"""Who paused a queue, as the audit trail has it."""

from datetime import timedelta

from django.db.models import OuterRef, Q, QuerySet, Subquery, Value
from django.db.models.functions import Coalesce

from ..models.audit_entry import AuditEntry
from ..models.queue import Queue

LONGEST_ACT = timedelta(seconds=10)  # between the entry and the pause itself


def with_person(queues: QuerySet[Queue]) -> QuerySet[Queue]:
    """Add `paused_by`: the person that paused each queue, or "" if code did.

    An act on several queues is one entry, which names no queue.
    """
    entries = AuditEntry.objects.using(queues.db).filter(
        Q(object_id=OuterRef("pk")) | Q(object_id=None),
        model="queue",
        act="pause",
        at__gte=OuterRef("paused_at") - LONGEST_ACT,
        at__lte=OuterRef("paused_at"),
    )
    latest = entries.order_by("-at").values("actor")[:1]
    return queues.annotate(paused_by=Coalesce(Subquery(latest), Value("")))
