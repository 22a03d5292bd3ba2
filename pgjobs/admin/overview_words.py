"""What the cells of the overview say, and the filters to which they lead."""

from typing import Any

from django.utils.translation import gettext

from ..conf import settings
from ..models import Status
from ..reports import status
from ..reports.durations import seconds_in_words
from ..reports.errors import MOST_COUNTED, Failures
from ..reports.job_filters import NO_EXCEPTION
from ..reports.texts import excerpt
from .markup import LONGEST_CELL, breakable, status_word


def filters_of(group: Failures) -> dict[str, Any]:
    """Return the filters of the list that shows the jobs of a group."""
    if group.kind is not None:
        return {"status": Status.FAILED, "group": group.kind.pk}
    return {"status": Status.FAILED, "task": group.task, "error": NO_EXCEPTION}


def number_of(group: Failures) -> str:
    """Return how many jobs of a group are FAILED, as far as they are counted."""
    number = group.number if group.failed_now is None else group.failed_now
    return f"{MOST_COUNTED:,}+" if number > MOST_COUNTED else f"{number:,}"


def name_of_task(name: str) -> str:
    return breakable(excerpt(name, LONGEST_CELL))


def paused(queue: status.QueueStatus) -> str:
    if queue.paused_seconds is None:
        return excerpt(queue.note, LONGEST_CELL)
    text = gettext("for %(time)s")
    if queue.paused_by:
        text = gettext("for %(time)s by %(person)s")
    since = text % {
        "time": seconds_in_words(queue.paused_seconds),
        "person": excerpt(queue.paused_by, LONGEST_CELL),
    }
    note = f"{since}. {excerpt(queue.note, LONGEST_CELL)}" if queue.note else since
    return status_word("waiting", gettext("Paused"), note)


def health(worker: status.WorkerStatus) -> str:
    silence = seconds_in_words(max(worker.heartbeat_seconds, 0))
    beat = gettext("last sign of life %(time)s ago") % {"time": silence}
    if worker.is_alive:
        return status_word("alive", gettext("Alive"), beat)
    return status_word("lost", gettext("Lost"), beat)


def slots(worker: status.WorkerStatus) -> str:
    values = {"running": worker.running, "slots": worker.slots}
    return gettext("%(running)d of %(slots)d slots") % values


def kept_for(status: str) -> str:
    """Return how long jobs are kept after their end, unless it is for ever."""
    retention = settings.RETENTION[status]
    text = gettext(" (kept for %(time)s)")
    return text % {"time": seconds_in_words(retention)} if retention else ""


def both(half: float | None, most: float | None) -> str:
    if half is None:
        return ""
    return f"{seconds_in_words(half)}, {seconds_in_words(most)}"


def capped(number: int) -> str:
    return f"{number}+" if number == status.MOST_COUNTED else str(number)
