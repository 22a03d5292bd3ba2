"""How many events wait, as `jobstatus` tells them."""

from collections.abc import Iterator

from django.core.management.base import OutputWrapper
from django.utils.translation import ngettext

from ...reports.status import MOST_COUNTED, capped
from ..operating.thresholds import Threshold
from .tables import Event

NAME = "events"


def state(database: str) -> dict[str, int]:
    """Return how many events wait for a handler or for an operator's decision."""
    events = Event.objects.using(database)
    return {
        "unhandled": events.unhandled()[:MOST_COUNTED].count(),
        "dead": events.dead()[:MOST_COUNTED].count(),
    }


def write(out: OutputWrapper, counts: dict[str, int]) -> None:
    if any(counts.values()):
        unhandled, dead = map(capped, counts.values())
        out.write(f"Events: {unhandled} unhandled, {dead} dead.")


def many_dead(database: str, most: int) -> Iterator[str]:
    """Say so if more events than that are dead letters, or have no handler."""
    events = Event.objects.using(database)
    if events.dead()[: most + 1].count() > most:
        text = ngettext(
            "There is more than %(most)d dead letter.",
            "There are more than %(most)d dead letters.",
            most,
        )
        yield text % {"most": most}
    if events.unhandled()[: most + 1].count() > most:
        text = ngettext(
            "There is more than %(most)d unhandled event.",
            "There are more than %(most)d unhandled events.",
            most,
        )
        yield text % {"most": most}


THRESHOLDS = (
    Threshold(
        "--max-dead",
        "more dead letters, or more unhandled events, are a problem",
        many_dead,
    ),
)
