"""How long it took until work went on, after each kind of fault."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .checker.evidence import Evidence, FaultRow, Version
from .checker.spans import Span
from .checker.waits import outages, seconds_outside
from .timeline import NAMES

# Finds a version among those after a fault, given the token of the broken attempt.
Finder = Callable[[list[Version], int], Version | None]


class Recovery(NamedTuple):
    """Of one kind of fault; seconds, sorted."""

    kind: str
    happened: int
    skipped: int
    met_running: int  # faults that met at least one running job
    jobs_met: int
    starts_met: int  # faults that met a process before it had registered
    # From the end of the fault to the next claim by any worker.
    work_went_on: list[float]
    # From its beginning until each job whose attempt it broke was taken back, without
    # the time in which a fault hindered all workers.
    taken_back: list[float]
    # And until it was started again: other jobs may come first, and its lock may be
    # another's.
    started_again: list[float]


def recoveries(evidence: Evidence) -> list[Recovery]:
    claims = sorted(
        version.committed_at
        for version in evidence.versions
        if version.is_running and version.attempts
    )
    left_out = outages(evidence)
    return [
        recovery_of(kind, evidence, claims, left_out)
        for kind in NAMES
        if any(fault.kind == kind for fault in evidence.faults)
    ]


def recovery_of(
    kind: str, evidence: Evidence, claims: list[float], left_out: list[Span]
) -> Recovery:
    all_of_kind = [fault for fault in evidence.faults if fault.kind == kind]
    happened = [fault for fault in all_of_kind if not fault.skipped]
    return Recovery(
        kind,
        len(happened),
        len(all_of_kind) - len(happened),
        sum(1 for fault in happened if fault.met),
        sum(len(fault.met) for fault in happened),
        sum(fault.has_met_start for fault in happened),
        sorted(
            seconds
            for fault in happened
            if (seconds := until_next(claims, fault.ended_at)) is not None
        ),
        until(taken_back, evidence, happened, left_out),
        until(started_again, evidence, happened),
    )


def until_next(times: list[float], since: float) -> float | None:
    place = bisect_right(times, since)
    return times[place] - since if place < len(times) else None


def until(
    find: Finder,
    evidence: Evidence,
    happened: list[FaultRow],
    left_out: Sequence[Span] = (),
) -> list[float]:
    """Return the seconds until what `find` finds of the attempts that were broken."""
    return sorted(
        seconds_outside(left_out, fault.began_at, found.committed_at)
        for fault in happened
        for job_id, token in fault.met
        if (found := find(broken_since(evidence, fault, job_id), token)) is not None
    )


def broken_since(evidence: Evidence, fault: FaultRow, job_id: int) -> list[Version]:
    """Return the versions of a job after the fault, if that broke its attempt."""
    versions = evidence.by_job.get(job_id, [])
    later = [version for version in versions if version.committed_at > fault.began_at]
    return later if was_broken(later) else []


def taken_back(later: list[Version], token: int) -> Version | None:
    return next((version for version in later if not version.is_running), None)


def started_again(later: list[Version], token: int) -> Version | None:
    running = (version for version in later if version.is_running)
    return next((version for version in running if version.token > token), None)


def was_broken(later: list[Version]) -> bool:
    """Whether the job of the attempt went back to the queue, for any reason."""
    after = next((version for version in later if not version.is_running), None)
    return after is not None and after.status in ("READY", "WAITING")


def percentile(seconds: list[float], percent: int) -> float:
    return seconds[min(len(seconds) - 1, len(seconds) * percent // 100)]
