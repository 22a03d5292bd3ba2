"""How often jobs start: never more than their rate says, in any window of time."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Version, Violation
from .spans import Span
from .verdicts import verdict
from .waits import STEP

# The row says when it was claimed; the rate counts the start a moment before or after.
NEARLY = 0.15  # seconds


@verdict("rate exceeded", "of a rate no more jobs start than it says, in any window")
def rates(evidence: Evidence) -> Iterator[Violation]:
    steps = [
        Span(fault.began_at - 1, fault.ended_at + 1)
        for fault in evidence.faults
        if fault.kind == STEP[0]
    ]
    for key, starts in starts_by_key(evidence).items():
        for first, last, seconds in too_close(starts):
            window = Span(first.at, last.at)
            if any(window.begin < s.end and s.begin < window.end for s in steps):
                continue  # nobody knows how much time went by
            number = starts.index(last) - starts.index(first) + 1
            text = f"{number} starts in {last.at - first.at:.3f} of {seconds:g} s"
            yield Violation(f"rate {key}: {text}", (first.job_id, last.job_id))


def starts_by_key(evidence: Evidence) -> dict[str, list[Version]]:
    """Return the claims whose bodies began: one that was given back has no place."""
    ran = {(each.job_id, each.life, each.attempt) for each in evidence.effects}
    found = defaultdict(list)
    for versions in evidence.by_job.values():
        starts = [new for old, new in pairwise(versions) if is_start(old, new)]
        for new in starts:
            if (new.job_id, new.life, new.attempts) in ran:
                found[new.rate_key].append(new)
    return {
        key: sorted(starts, key=lambda version: version.at)
        for key, starts in found.items()
    }


def is_start(old: Version, new: Version) -> bool:
    return bool(new.rate_key) and new.is_running and not old.is_running


def too_close(starts: list[Version]) -> Iterator[tuple[Version, Version, float]]:
    """Yield first and last of more starts than fit into a time of so many seconds.

    N starts fit into a period, and `burst` + k - 1 into k times the period / N.
    """
    for place, first in enumerate(starts):
        number, period = first.rate_number, first.rate_seconds
        rooms = [(number, period)]
        if first.rate_burst < number:
            rooms += [
                (first.rate_burst + k - 1, k * period / number)
                for k in range(1, number + 1)
            ]
        for most, seconds in rooms:
            last = starts[place + most] if place + most < len(starts) else None
            if last and last.at - first.at < seconds - NEARLY:
                yield first, last, seconds
                break
