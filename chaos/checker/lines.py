"""Lines of jobs that wait for a key: they move, and in their order."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .crowds import CLEARLY
from .evidence import Evidence, Version, Violation
from .spans import Span, merged, without
from .verdicts import verdict
from .waits import Idle, longest_wait, span_of

FREE = ("READY", "RUNNING")  # what an admission makes of a job that waits
Line = tuple[str, str]  # what its jobs wait for, and the key


def line_of(version: Version) -> Line | None:
    """Return the line that a job with a lock, a limit or a rate stands in."""
    for kind, key in (
        ("lock", version.lock),
        ("limit", version.limit_key),
        ("rate", version.rate_key),
    ):
        if key:
            return kind, key
    return None


@verdict("line stands still", "what waits for a lock or a limit runs once it is free")
def standing_still(evidence: Evidence) -> Iterator[Violation]:
    waiting: dict[tuple[Line, str], list[Span]] = defaultdict(list)
    taken: dict[Line, list[Span]] = defaultdict(list)
    for job_id, versions in evidence.honest.items():
        line = line_of(versions[0])
        if line is None or line[0] == "rate":
            continue
        for period in evidence.periods(job_id, lambda job: job.status in FREE):
            taken[line].append(span_of(period, evidence))
        for period in evidence.periods(job_id, waits_in(line[0])):
            waiting[line, versions[0].queue].append(span_of(period, evidence))
    late = {
        (line, queue): spans
        for (line, queue), periods in waiting.items()
        if (spans := too_long(without(merged(periods), merged(taken[line])), evidence))
    }
    idle = Idle(evidence) if late else None
    for (line, queue), spans in late.items():
        if idle and (found := idle.beside(spans, queue)):
            worker, seconds = found
            text = f"{' '.join(line)} was free for {seconds:.1f} s beside {worker}"
            yield Violation(f"{text}, and jobs of {queue} waited for it")


def waits_in(kind: str) -> Callable[[Version], bool]:
    return lambda job: (job.status, job.waiting_for) == ("WAITING", kind)


def too_long(spans: list[Span], evidence: Evidence) -> list[Span]:
    return [span for span in spans if span.seconds > longest_wait(evidence)]


class Passed(NamedTuple):
    """A job that waits, and the later ones that went before it."""

    since: Version
    by: list[Version]


@verdict(
    "overtaken", "jobs of one limit or rate go in their order, whatever each allows"
)
def overtaken(evidence: Evidence) -> Iterator[Violation]:
    """One that goes before another may find its row locked; two at two times do not."""
    troubled = merged(
        Span(fault.began_at - CLEARLY, fault.ended_at + CLEARLY)
        for fault in evidence.faults
    )
    before: dict[int, Version] = {}
    lines: dict[tuple, dict[int, Passed]] = defaultdict(dict)
    for version in evidence.versions:
        line = line_of(version)
        if line is None or version.lock or (version.limit_key and version.rate_key):
            continue
        old, before[version.job_id] = before.get(version.job_id), version
        there = lines[line, version.queue, version.priority]
        if version.status == "WAITING" and not version.is_gone:
            there.setdefault(version.job_id, Passed(version, []))
            continue
        passed = there.pop(version.job_id, None)
        if passed:
            yield from judged(passed, version.committed_at, troubled)
        if passed and old and version.status in FREE:
            for other in there.values():
                if is_before(other.since, old, version):
                    other.by.append(version)
    for there in lines.values():
        for passed in there.values():
            yield from judged(passed, evidence.ended_at, troubled)


def is_before(other: Version, old: Version, version: Version) -> bool:
    """Whether `other` waited before a job that has become `version`."""
    return other.turn < old.turn and other.committed_at + CLEARLY < version.began_at


def judged(passed: Passed, until: float, troubled: list[Span]) -> Iterator[Violation]:
    times = [
        each.committed_at
        for each in passed.by
        if each.committed_at + CLEARLY < until
        and not any(s.begin < each.committed_at < s.end for s in troubled)
    ]
    if times and max(times) - min(times) > CLEARLY:
        first = passed.since
        text = f"{len(times)} later ones went before {first.task} {first.job_id}"
        jobs = (first.job_id, *(each.job_id for each in passed.by))
        yield Violation(f"{' '.join(line_of(first) or ())}: {text}", jobs)
