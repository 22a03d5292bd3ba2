"""Schedules and events: each tick one job, each event one delivery a subscriber."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, TickRow, Version, Violation
from .verdicts import verdict

NEARLY = 0.001  # seconds: times are compared as floats


def is_delivery(evidence: Evidence, first: Version) -> bool:
    return first.task in evidence.subscribers


def ticks_by_schedule(evidence: Evidence) -> dict[str, list[TickRow]]:
    found = defaultdict(list)
    for tick in evidence.ticks:
        found[tick.schedule].append(tick)
    return found


@verdict("tick fired twice", "each tick of a schedule makes one job")
def tick_twice(evidence: Evidence) -> Iterator[Violation]:
    for schedule, ticks in ticks_by_schedule(evidence).items():
        for earlier, later in pairwise(ticks):
            if later.time - earlier.time < later.every - NEARLY:
                jobs = tuple(each.job_id for each in (earlier, later) if each.job_id)
                yield Violation(f"{schedule} fired twice at {later.time}", jobs)
        known = {tick.job_id for tick in ticks}
        for job_id, versions in evidence.by_job.items():
            if versions[0].task == ticks[0].task and job_id not in known:
                yield Violation(f"job {job_id} of {schedule} has no tick", (job_id,))


@verdict("tick never fired", "no tick of a schedule is left out")
def tick_never(evidence: Evidence) -> Iterator[Violation]:
    for schedule, ticks in ticks_by_schedule(evidence).items():
        for tick in ticks:
            if tick.job_id not in evidence.by_job:
                yield Violation(f"the tick of {schedule} at {tick.time} has no job")
        find = gaps if ticks[0].overlap == "allow" else missed
        for gap in find(evidence, ticks):
            yield Violation(f"{schedule} did not fire {gap}")
        late = evidence.ended_at - ticks[-1].next_run_at
        if late > 10 * ticks[-1].every:
            yield Violation(f"{schedule} has stopped, {late:.0f} s before the end")
    for schedule in set(evidence.schedules) - {
        tick.schedule for tick in evidence.ticks
    }:
        yield Violation(f"{schedule} never fired at all")


def gaps(evidence: Evidence, ticks: list[TickRow]) -> Iterator[str]:
    """Yield the times in which a schedule has left out ticks."""
    ends = [*(tick.time for tick in ticks), ticks[-1].next_run_at]
    for earlier, later in pairwise(ends):
        if later - earlier > ticks[0].every + NEARLY:
            yield f"from {earlier:.3f} to {later:.3f}"


def missed(evidence: Evidence, ticks: list[TickRow]) -> Iterator[str]:
    """Yield the ticks that no worker was there for, and that got no job later.

    A schedule whose runs do not overlap leaves out a tick while its last run is
    unfinished. While workers live, one tick passes at a time.
    """
    fired = {round(tick.time, 3) for tick in ticks}
    for move in evidence.moves:
        number = round((move.end - move.begin) / move.every)
        if move.schedule != ticks[0].schedule or number < 2:
            continue
        for passed in range(number):
            time = move.begin + passed * move.every
            if round(time, 3) not in fired:
                yield f"at {time:.3f}, although it caught up from {move.begin:.3f}"


@verdict("delivery missing", "each subscriber gets each event")
def delivery_missing(evidence: Evidence) -> Iterator[Violation]:
    got = defaultdict(set)
    for delivery in evidence.deliveries:
        if delivery.job_id in evidence.by_job:
            got[delivery.event_id].add(delivery.task)
        else:
            got[delivery.event_id] |= set()
    for event_id, tasks in got.items():
        for task in set(evidence.subscribers) - tasks:
            yield Violation(f"{task} never got event {event_id}")


@verdict("delivery doubled", "no subscriber gets an event twice")
def delivery_doubled(evidence: Evidence) -> Iterator[Violation]:
    firsts = [
        versions[0]
        for versions in evidence.honest.values()
        if is_delivery(evidence, versions[0])
    ]
    made = Counter((first.task, first.mark) for first in firsts)
    for (task, mark), number in made.items():
        if number > 1:
            jobs = tuple(each.job_id for each in firsts if each.mark == mark)
            yield Violation(f"{task} got the event {mark} {number} x", jobs)
