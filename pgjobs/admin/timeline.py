"""What happened to a job, in the order of time."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from django.utils.timezone import now
from django.utils.translation import gettext as _

from ..base.moments import instant
from ..models import Attempt, Job, Status
from .markup import ago, exact, lasting


class Moment(NamedTuple):
    at: datetime
    kind: str  # the class of its colour
    text: str

    @property
    def exactly(self) -> str:
        return exact(self.at)

    @property
    def ago(self) -> str:
        return ago(self.at)


def timeline(job: Job, attempts: Iterable[Attempt]) -> list[Moment]:
    moments = [*of_columns(job), *of_attempts(attempts)]
    return sorted(moments, key=lambda moment: instant(moment.at))


def of_columns(job: Job) -> Iterator[Moment]:
    yield Moment(job.enqueued_at, "ready", _("Enqueued"))
    if job.run_after is not None:
        yield Moment(job.run_after, "scheduled", _("Due"))
    if job.cancel_requested_at is not None:
        yield Moment(job.cancel_requested_at, "waiting", _("Asked to cancel"))
    if job.finished_at is not None:
        word = str(Status(job.status).label)
        yield Moment(job.finished_at, job.status.lower(), word)


def of_attempts(attempts: Iterable[Any]) -> Iterator[Moment]:
    for each in attempts:
        if each.started_at is None:
            continue
        end = each.finished_at or now()
        values = {
            "number": each.number,
            "outcome": each.outcome_word,
            "time": lasting(instant(end) - instant(each.started_at)),
        }
        text = _("Attempt %(number)d: %(outcome)s after %(time)s")
        if each.finished_at is None:
            text = _("Attempt %(number)d: has been running for %(time)s")
        yield Moment(each.started_at, each.outcome.lower(), text % values)
