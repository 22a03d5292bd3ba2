"""How many jobs ended in the last hour, day or week, and how long they took."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from itertools import accumulate
from math import sqrt
from typing import Any, NamedTuple

from django.db.models.functions import Now

from ...base.queue_database import database_time
from ...reports.reading import rows_of
from .counting import FACTOR, MOST_BUCKETS, bucket_of, upper_bound
from .tables import CodeVersion, Figure

MOST_TASKS = 50
MOST_VERSIONS = 20


class Period(NamedTuple):
    """A period up to now, and the spans that it is divided into."""

    seconds: int
    span: Any  # of Figure.Span

    @property
    def step(self) -> int:
        """Return the seconds of a span."""
        return int(self.span) * 60


PERIODS = {
    "hour": Period(3_600, Figure.Span.MINUTE),
    "day": Period(86_400, Figure.Span.HOUR),
    "week": Period(7 * 86_400, Figure.Span.HOUR),
}


@dataclass
class Sums:
    """What ended in a period."""

    key: str = ""  # a task, or the start in seconds of the epoch
    successful: int = 0
    failed: int = 0
    cancelled: int = 0
    retried: int = 0  # attempts
    seconds: float = 0.0  # that all attempts took
    # As workers of 0.9.0 have counted: see `spread`.
    run_times: list[int] = field(default_factory=list)
    wait_times: list[int] = field(default_factory=list)
    # How many were in each bucket of counting.py, as JSON.
    run_buckets: str | None = None
    wait_buckets: str | None = None

    @property
    def ended(self) -> int:
        return self.successful + self.failed + self.cancelled

    @property
    def failure_rate(self) -> float:
        return self.failed / self.ended if self.ended else 0.0

    def run_time(self, share: float) -> float | None:
        """Return roughly the seconds that this share of the attempts did not exceed."""
        return quantile(together(self.run_times, self.run_buckets), share)

    def wait_time(self, share: float) -> float | None:
        return quantile(together(self.wait_times, self.wait_buckets), share)


def together(old: list[int], text: str | None) -> dict[int, float]:
    """Return how many durations were in each bucket, whoever has counted them."""
    buckets: dict[int, float] = defaultdict(float)
    for position, number in enumerate(old):
        for bucket in spread(position) if number > 0 else ():
            buckets[bucket] += number / len(spread(position))
    for bucket, number in json.loads(text or "{}").items():
        buckets[min(max(int(bucket), 0), MOST_BUCKETS - 1)] += number
    return buckets


@cache
def spread(position: int) -> range:
    """Return the buckets of now over which one of 0.9.0 reached.

    The first one had what took less than 1 ms, and each further one reached twice as
    far.
    """
    last = bucket_of(2**position / 1_000)
    first = bucket_of(2 ** (position - 1) / 1_000) if position else 0
    return range(first, max(last, first + 1))


def quantile(buckets: dict[int, float], share: float) -> float | None:
    """Return roughly what this share stays below, or None if nothing was counted.

    It is the middle of a bucket, so no more than 10 % away from the truth.
    """
    left = sum(buckets.values()) * share
    if not left:
        return None
    before = accumulate(number for _, number in sorted(buckets.items()))
    reached = sum(number < left - 1e-9 for number in before)
    return upper_bound(sorted(buckets)[reached]) / sqrt(FACTOR)


class Figures(NamedTuple):
    """The sums of a period."""

    tasks: list[Sums]  # of which the most jobs ended
    spans: list[Sums]  # every one, also those in which no job ended


def figures(
    database: str,
    period: Period,
    task: str | None = None,
    queue_name: str | None = None,
    now: datetime | None = None,
) -> Figures:
    """Return the sums of a period; of a task or of a queue, if one is named.

    `now`: the time of the database, where it is known.
    """
    parameters = {
        "span": int(period.span),
        "seconds": period.seconds,
        "task": task,
        "queue_name": queue_name,
        "most": MOST_TASKS + period.seconds // period.step + 1,
    }
    rows = rows_of(database, "figures", parameters)
    ends_at = (now or database_time(database)).timestamp()
    tasks = [Sums(*row) for is_task, *row in rows if is_task]
    spans = {int(row[0]): Sums(*row) for is_task, *row in rows if not is_task}
    every = [spans.get(start, Sums(str(start))) for start in starts(period, ends_at)]
    return Figures(tasks[:MOST_TASKS], every)


def starts(period: Period, now: float) -> range:
    """Return when each span of a period began, in seconds of the epoch."""
    last = int(now) // period.step * period.step
    return range(last - period.seconds + period.step, last + 1, period.step)


def versions(database: str, period: Period) -> list[tuple[datetime, str]]:
    """Return the versions of the code that first ran in a period, and when."""
    start = Now() - timedelta(seconds=period.seconds)
    found = CodeVersion.objects.using(database).filter(first_at__gte=start)
    latest = found.order_by("-first_at").values_list("first_at", "name")
    return list(latest[:MOST_VERSIONS])[::-1]
