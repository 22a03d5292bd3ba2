"""What may not run side by side: locks, limits, units, unique keys, slots."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator

from .evidence import Evidence, Rules, Version, Violation, WorkerRow
from .lives import is_excused
from .verdicts import verdict

# A commit takes effect a moment after the time that PostgreSQL notes for it.
CLEARLY = 1.0  # seconds
LOCK = "lock rows"


def crowded(
    evidence: Evidence,
    key_of: Callable[[Version], Hashable | None],
    room_of: Callable[[Version], int],
    weight_of: Callable[[Version], int] = lambda version: 1,
) -> Iterator[tuple[Hashable, dict[int, Version]]]:
    """Yield the moments at which more has a key than it has room for."""
    inside: dict[Hashable, dict[int, Version]] = defaultdict(dict)
    place: dict[int, Hashable] = {}
    for moment in evidence.moments():
        for version in moment:
            inside[place.pop(version.job_id, None)].pop(version.job_id, None)
        touched = set()
        for version in moment:
            key = key_of(version)
            if key is not None:
                place[version.job_id] = key
                inside[key][version.job_id] = version
                touched.add(key)
        for key in touched:
            there = inside[key]
            # Of several, the one that allows most may have come last.
            room = max(room_of(version) for version in there.values())
            if sum(weight_of(version) for version in there.values()) > room:
                yield key, dict(there)


def running(attribute: str) -> Callable[[Version], Hashable | None]:
    return lambda version: getattr(version, attribute) if version.is_running else None


def calls(version: Version) -> int:
    """Return how many calls a running job counts for: those of its call are one."""
    return 0 if version.is_companion else 1


def told(what: str, key: Hashable, there: dict[int, Version]) -> Violation:
    jobs = tuple(sorted(there))
    return Violation(f"{what} {key}: jobs {', '.join(map(str, jobs))}", jobs)


@verdict("two running in one lock", "no two jobs of a lock run at a time")
def two_in_lock(evidence: Evidence) -> Iterator[Violation]:
    for key, there in crowded(evidence, running("lock"), lambda version: 1):
        yield told("lock", key, there)


@verdict("limit exceeded", "no more jobs of a limit key run than its max_running")
def limits(evidence: Evidence) -> Iterator[Violation]:
    def room(version: Version) -> int:
        return version.max_running or 1

    for key, there in crowded(evidence, running("limit_key"), room):
        yield told("limit", key, there)


@verdict("queue limit exceeded", "no more jobs of a queue run than its max_running")
def queue_limits(evidence: Evidence) -> Iterator[Violation]:
    def narrow(version: Version) -> str | None:
        is_inside = version.is_running and version.queue == "narrow"
        return version.queue if is_inside else None

    room = evidence.rules.narrow
    for key, there in crowded(evidence, narrow, lambda _: room, calls):
        yield told("queue", key, there)


@verdict("units exceeded", "the jobs of a host take no more units than it has")
def units(evidence: Evidence) -> Iterator[Violation]:
    def host(version: Version) -> str | None:
        return "this host" if version.is_running else None

    room = evidence.rules.units
    for key, there in crowded(evidence, host, lambda _: room, lambda job: job.units):
        yield told("units of", key, there)


@verdict("unique violated", "no two unfinished jobs have one unique key")
def unique(evidence: Evidence) -> Iterator[Violation]:
    def held(version: Version) -> str | None:
        holds = version.unique_for == "unfinished" and version.is_unfinished
        return version.unique_key if holds else None

    for key, there in crowded(evidence, held, lambda version: 1):
        yield told("unique key", key, there)


def room_of(worker: WorkerRow, rules: Rules) -> int:
    prefetches = worker.name.startswith(f"{rules.prefetching}.")
    return worker.slots + (rules.most_prefetched if prefetches else 0)


@verdict("slots exceeded", "a worker claims no more jobs than it has slots")
def slots(evidence: Evidence) -> Iterator[Violation]:
    sizes = {worker.id: room_of(worker, evidence.rules) for worker in evidence.workers}

    def room(version: Version) -> int:
        return sizes.get(version.worker_id or 0, 10**6)

    for key, there in crowded(evidence, running("worker_id"), room, calls):
        latest = max(there.values(), key=lambda version: version.seq)
        # After a fault it may own jobs that it does not know; it gives them back.
        if is_excused(evidence, latest, latest.committed_at):
            continue
        locked = locked_at(evidence, latest.committed_at)
        held = [version for id, version in there.items() if id not in locked]
        if sum(map(calls, held)) > room(latest):
            yield told("worker", key, there)


def locked_at(evidence: Evidence, at: float) -> set[int]:
    """Return the running jobs whose rows are locked: their ends cannot be stored.

    What has ended takes no slot, although its row is still RUNNING.
    """
    return {
        job_id
        for fault in evidence.faults
        if fault.kind == LOCK and fault.began_at <= at <= fault.ended_at + CLEARLY
        for job_id, _ in fault.met
    }


@verdict("order violated", "of an ordered lock the lowest id that waits is next")
def order(evidence: Evidence) -> Iterator[Violation]:
    waiting: dict[str, dict[int, Version]] = defaultdict(dict)
    before: dict[int, Version] = {}
    for version in evidence.versions:
        if not (version.lock and version.is_ordered):
            continue
        old, before[version.job_id] = before.get(version.job_id), version
        line = waiting[version.lock]
        # An admission may claim it, too.
        if old and old.status == "WAITING" and version.status in ("READY", "RUNNING"):
            for other in line.values():
                if is_passed_over(other, version):
                    text = f"{version.job_id} went before {other.job_id}"
                    jobs = (other.job_id, version.job_id)
                    yield Violation(f"lock {version.lock}: {text}", jobs)
        if version.is_unfinished:
            since = line.get(version.job_id, version)
            line[version.job_id] = since if since.life == version.life else version
        else:
            line.pop(version.job_id, None)


def is_passed_over(other: Version, version: Version) -> bool:
    return (
        other.job_id < version.job_id
        and other.committed_at + CLEARLY < version.began_at
    )
