"""How often jobs start: never more than their rate says, in any window of time."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Version, Violation
from .spans import Span
from .verdicts import verdict
from .waits import STEP

NEARLY = 0.002  # seconds: times are compared as floats, and rounded to microseconds


@verdict("rate exceeded", "of a rate no more jobs start than it says, in any window")
def rates(evidence: Evidence) -> Iterator[Violation]:
    steps = [
        Span(fault.began_at - 1, fault.ended_at + 1)
        for fault in evidence.faults
        if fault.kind == STEP[0]
    ]
    for key, starts in starts_by_key(evidence).items():
        if len({rate_of(start) for start in starts}) > 1:
            continue  # each job goes by its own rate, and which came first is unknown
        for first, last, seconds in too_close(starts):
            window = Span(time_of(first), time_of(last))
            if any(window.begin < s.end and s.begin < window.end for s in steps):
                continue  # the evidence cannot tell how much time passed
            text = f"too many starts in {window.seconds:.3f} of {seconds:g} s"
            yield Violation(f"rate {key}: {text}", (first.job_id, last.job_id))


def starts_by_key(evidence: Evidence) -> dict[str, list[Version]]:
    """Return the claims whose bodies began: one that was given back has no place."""
    ran = {(each.job_id, each.life, each.attempt) for each in evidence.effects}
    found = defaultdict(list)
    for versions in evidence.by_job.values():
        for old, new in pairwise(versions):
            is_start = new.rate_key and new.is_running and not old.is_running
            if is_start and (new.job_id, new.life, new.attempts) in ran:
                found[new.rate_key].append(new)
    return {key: sorted(starts, key=time_of) for key, starts in found.items()}


def time_of(start: Version) -> float:
    """Return when a job started. Its claim may have been written later."""
    return start.attempted_at or start.at


def rate_of(start: Version) -> tuple[float, int, int]:
    return start.rate_seconds, start.rate_number, start.rate_burst


def too_close(starts: list[Version]) -> Iterator[tuple[Version, Version, float]]:
    """Yield first and last of more starts than fit into a time of so many seconds.

    N starts fit into a period, and `burst` + k - 1 into k times the period / N.
    """
    for place, first in enumerate(starts):
        for most, seconds in rooms_of(first):
            last = starts[place + most] if place + most < len(starts) else None
            if last and time_of(last) - time_of(first) < seconds - NEARLY:
                yield first, last, seconds
                break


def rooms_of(start: Version) -> Iterator[tuple[int, float]]:
    """Yield how many starts fit into how many seconds."""
    period, number, burst = rate_of(start)
    yield number, period
    if burst < number:
        for k in range(1, number + 1):
            yield burst + k - 1, k * period / number
