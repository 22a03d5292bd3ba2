"""How many tasks wait by their own wish, as `jobstatus` tells it."""

from datetime import timedelta

from django.core.management.base import OutputWrapper
from django.db.models import QuerySet
from django.utils.timezone import now

from ...conf import settings
from ...models.job import Job
from ...reports.status import MOST_COUNTED, capped
from ..events.tables import Event
from .tables import AwaitedEvent, Kind, WaitNote

NAME = "waits"


def state(database: str) -> dict[str, int | None]:
    """Return how many jobs wait, and how many old events are kept for waits.

    And the id of the oldest job that waits for an event.
    """
    # Each job that waits has a note, and few others have one for a moment.
    notes = WaitNote.objects.using(database).filter(job_id__isnull=False)
    noted = notes.values("job_id")
    oldest = Job.objects.using(database).filter(waiting_for=Kind.EVENT, pk__in=noted)
    return {
        "waiting": notes.values("pk")[:MOST_COUNTED].count(),
        "kept_events": kept_events(database)[:MOST_COUNTED].count(),
        "oldest_job": oldest.order_by("pk").values_list("pk", flat=True).first(),
    }


def kept_events(database: str) -> QuerySet[Event]:
    """Return the events that retention would have deleted, but for waits."""
    if settings.EVENT_RETENTION is None:
        return Event.objects.none()
    before = now() - timedelta(seconds=settings.EVENT_RETENTION)
    awaited = AwaitedEvent.objects.using(database).values("pk")
    old = Event.objects.using(database).filter(published_at__lt=before, pk__in=awaited)
    return old.values("pk")


def write(out: OutputWrapper, counts: dict[str, int | None]) -> None:
    waiting, kept = counts["waiting"] or 0, counts["kept_events"] or 0
    if waiting or kept:
        text = (
            f"Tasks that wait: {capped(waiting)}. Events kept for them: {capped(kept)}"
        )
        if (oldest := counts["oldest_job"]) is not None:
            text += f". The oldest that waits for one: job {oldest}"
        out.write(f"{text}.")
