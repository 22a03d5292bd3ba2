"""What a run prints: a table of promises, one of faults, and the evidence."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise

from .checker.evidence import Evidence, Version, Violation
from .checker.states import transition_of
from .checker.verdicts import Judged
from .recovery import Recovery, percentile, recoveries
from .timeline import NAMES

MOST_TOLD = 5  # violations of one verdict that are told in full
AROUND = 15.0  # seconds around a violation, in which faults are named


def report(evidence: Evidence, judged: list[Judged]) -> Iterator[str]:
    """Yield the lines of the report, in Markdown."""
    yield from summary(evidence)
    yield ""
    yield from promises(judged)
    yield ""
    yield from faults(recoveries(evidence))
    for each in judged:
        for violation in each.violations[:MOST_TOLD]:
            yield ""
            yield f"**{each.verdict.name}**: {violation.text}"
            yield from evidence_of(violation, evidence)
    yield from broken(judged)


def summary(evidence: Evidence) -> Iterator[str]:
    ends = Counter(versions[-1].status for versions in evidence.by_job.values())
    outcomes = Counter(transaction.outcome for transaction in evidence.transactions)
    yield f"{len(evidence.by_job):,} jobs in {len(evidence.versions):,} versions: " + (
        ", ".join(f"{number:,} {status}" for status, number in sorted(ends.items()))
    )
    yield f"{len(evidence.transactions):,} transactions of producers: " + (
        ", ".join(f"{number:,} {name}" for name, number in sorted(outcomes.items()))
    )
    claims = sum(1 for version in evidence.versions if is_claim(version))
    registered = sum(1 for worker in evidence.workers if worker.operation == "INSERT")
    number = sum(1 for fault in evidence.faults if fault.kind in NAMES)
    yield f"{claims:,} attempts; {registered:,} workers; {number} faults"
    admitted, ahead = claims_by_admission(evidence), most_held(evidence)
    yield f"{admitted:,} claims by an admission; a worker held up to {ahead} jobs"


def claims_by_admission(evidence: Evidence) -> int:
    return sum(
        old.status == "WAITING" and new.is_running
        for versions in evidence.by_job.values()
        for old, new in pairwise(versions)
    )


def most_held(evidence: Evidence) -> int:
    """Return how many jobs a worker held at most, running or prefetched."""
    owners: dict[int, int] = {}
    held: Counter[int] = Counter()
    most = 0
    for version in evidence.versions:
        if owner := owners.pop(version.job_id, None):
            held[owner] -= 1
        if version.is_running and version.worker_id:
            owners[version.job_id] = version.worker_id
            held[version.worker_id] += 1
            most = max(most, held[version.worker_id])
    return most


def is_claim(version: Version) -> bool:
    return version.is_running and version.cancel_requested_at is None


def promises(judged: list[Judged]) -> Iterator[str]:
    yield "| verdict | promise | violations |"
    yield "|---|---|---:|"
    for verdict, violations in judged:
        yield f"| {verdict.name} | {verdict.promise} | {len(violations)} |"


def broken(judged: list[Judged]) -> Iterator[str]:
    """Yield what ends the report: of a long log often only the end is seen."""
    for verdict, violations in judged:
        if violations:
            yield ""
            yield f"Broken {len(violations)} x: {verdict.promise} ({verdict.name})."
            yield f"First: {violations[0].text}"


def faults(found: list[Recovery]) -> Iterator[str]:
    yield (
        "| fault | times | met running jobs | jobs met "
        "| work goes on after, p50 / p95 / max s | broken jobs taken back "
        "| started again |"
    )
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for each in found:
        skipped = f" ({each.skipped} skipped)" if each.skipped else ""
        yield (
            f"| {each.kind} | {each.happened}{skipped} | {each.met_running} "
            f"| {each.jobs_met} | {figures(each.work_went_on)} "
            f"| {figures(each.taken_back, with_number=True)} "
            f"| {figures(each.started_again)} |"
        )
    if starting := [each for each in found if "starting" in each.kind]:
        met = (f"{each.kind} {each.starts_met} x" for each in starting)
        yield ""
        yield f"Met before it had registered: {', '.join(met)}."


def figures(seconds: list[float], with_number: bool = False) -> str:
    if not seconds:
        return "-"
    told = " / ".join(f"{percentile(seconds, each):.1f}" for each in (50, 95, 100))
    return f"{len(seconds)}: {told}" if with_number else told


def evidence_of(violation: Violation, evidence: Evidence) -> Iterator[str]:
    """Yield the versions of the jobs, and the faults around them."""
    times = []
    for job_id in violation.job_ids[:4]:
        old = None
        for version in evidence.by_job.get(job_id, []):
            yield f"    {line_of(old, version, evidence)}"
            times.append(version.committed_at)
            old = version
    if not times:
        return
    for fault in evidence.faults:
        is_near = (
            fault.ended_at > min(times) - AROUND and fault.began_at < max(times) + 1
        )
        if is_near and not fault.skipped:
            span = f"{clock(fault.began_at)} to {clock(fault.ended_at)}"
            yield f"    fault {span}: {fault.kind}, {fault.target}"


def line_of(old: Version | None, version: Version, evidence: Evidence) -> str:
    owner = evidence.worker_names.get(version.worker_id or 0, version.worker_id or "-")
    change = transition_of(old, version) or "ILLEGAL"
    return (
        f"job {version.job_id} {clock(version.committed_at)} {version.status:10} "
        f"[{change}] by {version.actor}, owner {owner}, token {version.token}, "
        f"life {version.life}, attempts {version.attempts}, "
        f"failures {version.failures}/{version.max_attempts}, "
        f"crashes {version.crashes}/{version.max_crashes} {version.reason[:60]!r}"
    )


def clock(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-3]
