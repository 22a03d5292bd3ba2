"""The strip of numbers with which the overview begins."""

from typing import Any, NamedTuple

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from ...models.job_choices import Status
from ...reports import status
from ...reports.durations import seconds_in_words
from .figures import Sums
from .links import Links


class Number(NamedTuple):
    """A cell of the strip."""

    label: Any
    value: str
    note: str  # below the value
    url: str  # empty if the user may not view what it leads to
    is_bad: bool = False


def numbers(shown: Links, state: status.Overview, hour: list[Sums]) -> list[Number]:
    """Return the six numbers; `hour`: what ended in each span of the last hour."""
    return [
        ready(shown, state),
        running(shown, state),
        failed(shown, hour),
        waiting(shown, state),
        paused(shown, state),
        alive(shown, state),
    ]


def ready(shown: Links, state: status.Overview) -> Number:
    ages = [each.oldest_ready_seconds or 0 for each in state.queues if each.ready]
    note = gettext("oldest %(time)s") % {"time": seconds_in_words(max(ages, default=0))}
    url = shown.list_of("job", status=Status.READY)
    return Number(_("Ready"), total(state, "ready"), note if ages else "", url)


def running(shown: Links, state: status.Overview) -> Number:
    living = (each for each in state.workers if each.is_alive and not each.wanted)
    slots = sum(each.slots for each in living)
    note = gettext("of %(slots)s slots") % {"slots": f"{slots:,}"}
    url = shown.list_of("job", status=Status.RUNNING)
    return Number(_("Running"), total(state, "running"), note, url)


def failed(shown: Links, hour: list[Sums]) -> Number:
    number, ended = (
        sum(getattr(each, name) for each in hour) for name in ("failed", "ended")
    )
    note = gettext("in the last hour")
    if ended:
        note = gettext("%(share)s of the last hour") % {
            "share": share_text(number / ended)
        }
    url = shown.list_of("job", status=Status.FAILED, ended="hour")
    return Number(_("Failed"), f"{number:,}", note, url, is_bad=number > 0)


def share_text(share: float) -> str:
    """Return a share in percent, but neither none nor all for what is not."""
    if 0 < share < 0.001:
        return "<0.1%"
    if 0 < share < 0.01:
        return f"{share:.1%}"
    return f"{share if share == 1 else min(share, 0.99):.0%}"


def waiting(shown: Links, state: status.Overview) -> Number:
    url = shown.list_of("job", status=Status.WAITING)
    return Number(_("Waiting"), total(state, "waiting"), "", url)


def paused(shown: Links, state: status.Overview) -> Number:
    number = sum(each.paused_seconds is not None for each in state.queues)
    return Number(_("Paused queues"), f"{number:,}", "", shown.list_of("queue"))


def alive(shown: Links, state: status.Overview) -> Number:
    number = sum(each.is_alive for each in state.workers)
    lost = len(state.workers) - number
    note = gettext("%(number)d lost") % {"number": lost} if lost else ""
    url = shown.list_of("worker")
    return Number(_("Workers alive"), f"{number:,}", note, url, is_bad=not number)


def total(state: status.Overview, name: str) -> str:
    """Return how many jobs there are in all queues, as far as they were counted."""
    number = sum(getattr(each, name) for each in state.queues)
    is_capped = any(name in each.capped for each in state.queues)
    return f"{number:,}+" if is_capped else f"{number:,}"
