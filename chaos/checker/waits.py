"""What was kept waiting: jobs stuck at the end, and READY jobs that were overlooked."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from .evidence import (
    EVERYBODY,
    Evidence,
    FaultRow,
    Period,
    Version,
    Violation,
    WorkerRow,
)
from .spans import Span, longest, merged, overlaps, without
from .states import OPERATORS
from .verdicts import verdict

SETTLING = 5.0  # seconds in which a worker is itself again after a fault
SLACK = 1.5  # seconds that a busy machine may take longer
HINDERS_ALL = 3.0  # seconds after a fault that met all
TIME_TO_END = 5.0  # seconds: schedules fire until the end
# A server's clock that goes back makes all that is due, or dead, so much later.
STEP = ("step the clock of the server", 15.0)
# Only puts jobs into queues.
HARMLESS = ("a crowd of queues behind one key",)
KILLING_ALL = "kill all workers for a while"
# Another process is killed first, so that one starts.
KILLING = (
    "a job that ends its process",
    KILLING_ALL,
    "kill a worker",
    "kill a supervisor",
    "kill a starting worker",
    "kill a starting supervisor",
    "stop a starting worker",
    "stop a starting supervisor",
)


@verdict("stuck", "every job has ended, some time after the last fault")
def stuck(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.honest.items():
        last = versions[-1]
        has_had_time = versions[0].committed_at < evidence.ended_at - TIME_TO_END
        if last.is_unfinished and has_had_time:
            text = f"{last.task} {job_id} is still {last.status} {last.reason}"
            yield Violation(text.strip(), (job_id,))


@verdict("rescued late", "a dead worker's jobs go back within 10 s, or lease + 15 s")
def rescued_late(evidence: Evidence) -> Iterator[Violation]:
    limits = {
        **dict.fromkeys(KILLING, 10.0),
        "stop a worker for longer than its lease": evidence.rules.lease + 15,
    }
    spans = outages(evidence)
    for fault in evidence.faults:
        for job_id, token in fault.met if fault.kind in limits else ():
            end = end_of_attempt(evidence, job_id, token)
            seconds = seconds_outside(spans, fault.began_at, end)
            if seconds > limits[fault.kind]:
                text = f"job {job_id} of {fault.target} went back after {seconds:.1f} s"
                yield Violation(text, (job_id,))


def end_of_attempt(evidence: Evidence, job_id: int, token: int) -> float:
    """Return when the attempt with this token was over, as far as rows say."""
    versions = evidence.by_job.get(job_id, [])
    begun = [version for version in versions if version.token >= token]
    return next(
        (each.committed_at for each in begun if not each.is_running), evidence.ended_at
    )


def outages(evidence: Evidence) -> list[Span]:
    """Return when a fault kept all workers from taking back what a dead one held.

    After all were killed, that is until the first new one has registered.
    """
    registered = [
        worker.at for worker in evidence.workers if worker.operation == "INSERT"
    ]
    return merged(
        span_of_outage(fault, registered)
        for fault in evidence.faults
        if hinders_all(fault)
    )


def seconds_outside(spans: Sequence[Span], begin: float, end: float) -> float:
    return sum(span.seconds for span in without([Span(begin, end)], spans))


def span_of_outage(fault: FaultRow, registered: Sequence[float]) -> Span:
    end = fault.ended_at
    if fault.kind == STEP[0]:
        end += STEP[1]
    if fault.kind == KILLING_ALL:
        end = min((at for at in registered if at > end), default=end)
    return Span(fault.began_at, end)


def hinders_all(fault: FaultRow) -> bool:
    is_harmless = fault.kind in HARMLESS
    return (not fault.pids or fault.target == EVERYBODY) and not is_harmless


@verdict("overlooked", "a free worker starts what is READY within two polls")
def overlooked(evidence: Evidence) -> Iterator[Violation]:
    late = [
        period
        for job_id in evidence.honest
        for period in evidence.periods(job_id, lambda job: job.status == "READY")
        if span_of(period, evidence).seconds > longest_wait(evidence)
        and period.begin.queue != "narrow"
        and period.begin.units == 1
    ]
    if not late:
        return
    idle = Idle(evidence)
    for period in late:
        found = idle.beside([span_of(period, evidence)], period.begin.queue)
        if found:
            job_id, (worker, seconds) = period.begin.job_id, found
            text = f"job {job_id} was READY for {seconds:.1f} s beside {worker}"
            yield Violation(f"{text}, which had a free slot", (job_id,))


class Idle:
    """When workers had free slots, and nothing kept them from claiming."""

    def __init__(self, evidence: Evidence):
        self.longest_wait = longest_wait(evidence)
        self.free = free_spans(evidence)
        self.hindered = merged(hindrances(evidence))
        self.paused = pauses(evidence)

    def beside(self, waited: list[Span], queue: str) -> tuple[WorkerRow, float] | None:
        """Return a worker that has let jobs of a queue wait for too long, and how long.

        `waited`: when there were such jobs.
        """
        waited = without(without(waited, self.hindered), merged(self.paused[queue]))
        waited = [span for span in waited if span.seconds > self.longest_wait]
        for worker, spans in self.free.items() if waited else ():
            seconds = longest(waited, spans) if worker.serves(queue) else 0.0
            if seconds > self.longest_wait:
                return worker, seconds
        return None


def longest_wait(evidence: Evidence) -> float:
    return 2.2 * evidence.rules.poll + SLACK


def span_of(period: Period, evidence: Evidence) -> Span:
    end = period.end.committed_at if period.end else evidence.ended_at
    return Span(period.begin.committed_at, end)


def pauses(evidence: Evidence) -> dict[str, list[Span]]:
    """Return when each queue was paused."""
    found: dict[str, list[Span]] = defaultdict(list)
    since: dict[str, float] = {}
    for pause in evidence.pauses:
        if pause.is_paused:
            since.setdefault(pause.name, pause.at)
        elif pause.name in since:
            found[pause.name].append(Span(since.pop(pause.name), pause.at + 1))
    for name, begin in since.items():
        found[name].append(Span(begin, evidence.ended_at))
    return found


def hindrances(evidence: Evidence) -> list[Span]:
    """Return the times in which no worker can be expected to claim anything."""
    return [
        Span(fault.began_at - 0.5, fault.ended_at + HINDERS_ALL)
        for fault in evidence.faults
        if hinders_all(fault)
    ] + [
        span_of(period, evidence)
        for job_id in evidence.by_job
        for period in evidence.periods(job_id, holds_others_back)
    ]


def holds_others_back(version: Version) -> bool:
    """Whether a READY job makes others wait: it must run alone, or is heavy."""
    return version.status == "READY" and (
        version.crashes + 1 >= version.max_crashes or version.units > 1
    )


def free_spans(evidence: Evidence) -> dict[WorkerRow, list[Span]]:
    """Return when each worker lived, met no fault and had a free slot."""
    found: dict[WorkerRow, list[Span]] = {}
    killed = {
        pid: fault.began_at
        for fault in evidence.faults
        if fault.kind.startswith("kill")
        for pid in fault.pids
    }
    busy = busy_spans(evidence)
    born = {w.id: w for w in evidence.workers if w.operation == "INSERT"}
    ends = {w.id: w.at for w in evidence.workers if w.operation == "DELETE"}
    for worker_id, worker in born.items():
        end = ends.get(worker_id, evidence.ended_at)
        life = [Span(worker.at + 2, min(end, killed.get(worker.pid, end)))]
        troubled = [
            Span(fault.began_at - 1, fault.ended_at + SETTLING + evidence.rules.lease)
            for fault in evidence.faults_of_worker(worker_id)
        ]
        found[worker] = without(life, merged(troubled + busy[worker_id]))
    return found


def busy_spans(evidence: Evidence) -> dict[int, list[Span]]:
    """Return when each worker had no free slot, or a job that must run alone."""
    slots = {worker.id: worker.slots for worker in evidence.workers}
    held: dict[int, list[Span]] = defaultdict(list)
    found: dict[int, list[Span]] = defaultdict(list)
    for claim, span in holdings(evidence):
        held[claim.worker_id].append(span)
        if claim.crashes + 1 >= claim.max_crashes:
            found[claim.worker_id].append(span)
    for worker_id, spans in held.items():
        found[worker_id] += overlaps(spans, slots.get(worker_id, 1))
    return found


def holdings(evidence: Evidence) -> Iterator[tuple[Version, Span]]:
    """Yield each claim, and when its job took a slot of the worker."""
    for versions in evidence.by_job.values():
        claim = None
        for version in versions:
            holder = version.worker_id if version.is_running else None
            if claim is not None and holder != claim.worker_id:
                yield claim, Span(claim.committed_at, end_of_body(claim, version))
                claim = None
            if claim is None and holder is not None:
                claim = version
        if claim is not None:
            yield claim, Span(claim.committed_at, evidence.ended_at)


def end_of_body(claim: Version, left: Version) -> float:
    """Return when the body was over. A person may have ended its row before that."""
    if not left.actor.startswith(OPERATORS):
        return left.committed_at
    return max(left.committed_at, claim.committed_at + claim.seconds)
