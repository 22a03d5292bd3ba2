"""What became of each job: legal changes, one end a life, no innocent failed."""

from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Version, Violation
from .expectations import ENDS
from .states import OPERATORS, transition_of
from .verdicts import verdict


@verdict("illegal transition", "every change is one that the state machine allows")
def illegal(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.by_job.items():
        if transition_of(None, versions[0]) is None:
            first = versions[0].status
            yield Violation(f"job {job_id} was enqueued {first}", (job_id,))
        for old, new in pairwise(versions):
            if transition_of(old, new) is None:
                change = f"{old.status} to {new.status}"
                yield Violation(f"job {job_id} went from {change}", (job_id,))


@verdict("double completion", "a life of a job ends once")
def double_completion(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.by_job.items():
        ends: dict[int, int] = {}
        for old, new in pairwise(versions):
            if old.is_unfinished and new.is_finished:
                ends[new.life] = ends.get(new.life, 0) + 1
            elif transition_of(old, new) == "revive":
                ends[new.life] = 0
        for life, number in ends.items():
            if number > 1:
                yield Violation(f"life {life} of {job_id} ended {number} x", (job_id,))


@verdict("token used twice", "a lease token is new at each claim")
def token_reused(evidence: Evidence) -> Iterator[Violation]:
    owners: dict[int, int] = {}
    for version in evidence.versions:
        if not version.is_running or version.worker_id is None:
            continue
        key = hash((version.job_id, version.worker_id, version.attempts, version.life))
        if version.token and owners.setdefault(version.token, key) != key:
            text = f"token {version.token} belongs to several claims"
            yield Violation(text, (version.job_id,))


@verdict("recorded by a stale worker", "only the owner of an attempt records its end")
def stale(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.by_job.items():
        for old, new in pairwise(versions):
            if not (old.is_running and not new.is_running):
                continue
            if stranger := recorder_that_is_no_owner(evidence, old, new):
                text = f"job {job_id} was recorded by {stranger}, not by its owner"
                yield Violation(text, (job_id,))
            elif is_of_another_attempt(old, new):
                text = f"job {job_id} has the result of attempt {new.recorded_attempt}"
                yield Violation(text, (job_id,))


def recorder_that_is_no_owner(
    evidence: Evidence, old: Version, new: Version
) -> str | None:
    """Return the recorder of an attempt, if the attempt was another worker's."""
    owner = evidence.worker_names.get(old.worker_id or 0)
    if owner is None or new.token != old.token or new.actor.startswith(OPERATORS):
        return None
    if new.actor.endswith(f":{owner}"):
        return None
    return new.actor


def is_of_another_attempt(old: Version, new: Version) -> bool:
    return (
        new.status == "SUCCESSFUL"
        and not new.actor.startswith(OPERATORS)
        and new.recorded_attempt is not None
        and new.recorded_attempt != old.attempts
    )


@verdict(
    "taken from a living worker", "a job is rescued only after a fault of its worker"
)
def robbed(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.honest.items():
        for old, new in pairwise(versions):
            if transition_of(old, new) == "rescue" and not is_excused(
                evidence, old, new.committed_at
            ):
                owner = evidence.worker_names.get(old.worker_id or 0)
                text = f"job {job_id} was taken from {owner}, which met no fault"
                yield Violation(text, (job_id,))


def is_excused(evidence: Evidence, old: Version, at: float) -> bool:
    """Whether a fault met the worker of this job not long before."""
    since = at - evidence.rules.lease - 15
    return any(
        fault.began_at <= at and fault.ended_at >= since
        for fault in evidence.faults_of_worker(old.worker_id)
    ) or has_killed_itself(evidence, old.worker_id, since, at)


def has_killed_itself(
    evidence: Evidence, worker_id: int | None, since: float, until: float
) -> bool:
    """Whether a job that ends its process ran in the worker."""
    return any(
        version.is_running
        and version.task == "project.exits"
        and version.worker_id == worker_id
        and since - 60 <= version.committed_at <= until
        for version in evidence.versions
    )


@verdict(
    "innocents failed", "each job ends as its task must, whatever its neighbours do"
)
def innocents(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.honest.items():
        last = versions[-1]
        allowed = ENDS.get(last.task)
        if allowed is None or not last.is_finished or last.status in allowed:
            continue
        if not was_decided(evidence, versions) and not is_of_our_faults(
            evidence, versions
        ):
            text = f"{last.task} {job_id} ended {last.status}: {last.reason}"
            yield Violation(text, (job_id,))


def was_decided(evidence: Evidence, versions: list[Version]) -> bool:
    """Whether an operator, or the end of its predecessor, ended the present life."""
    life = [version for version in versions if version.life == versions[-1].life]
    return any(
        version.actor.startswith(OPERATORS)
        and (version.is_finished or version.cancel_requested_at)
        for version in life
    ) or versions[-1].reason.startswith("Cancelled: ")


def is_of_our_faults(evidence: Evidence, versions: list[Version]) -> bool:
    """Whether a fault of the harness, no neighbour, was the last crash of a job."""
    if versions[-1].crashes < versions[-1].max_crashes or len(versions) < 2:
        return False
    old = versions[-2]
    return any(
        fault.ended_at >= old.committed_at - evidence.rules.lease - 15
        for fault in evidence.faults_of_worker(old.worker_id)
    )
