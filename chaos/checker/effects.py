"""What bodies did, against what was recorded of them."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Version, Violation
from .expectations import ATOMIC, ENDS, SILENT, SUCCEEDS
from .states import OPERATORS
from .verdicts import verdict


def lives(versions: list[Version]) -> dict[int, Version]:
    """Return how each life of a job stands, or ended."""
    return {version.life: version for version in versions}


def is_by_worker(version: Version) -> bool:
    return not version.actor.startswith(OPERATORS)


@verdict("double effect", "an atomic job takes effect once if it succeeds, else never")
def double_effect(evidence: Evidence) -> Iterator[Violation]:
    settled = Counter(
        (effect.job_id, effect.life)
        for effect in evidence.effects
        if effect.what == "settled"
    )
    for job_id, versions in evidence.honest.items():
        if versions[0].task not in ATOMIC:
            continue
        for life, end in lives(versions).items():
            wanted = int(recorded_success(versions, life))
            found = settled[job_id, life]
            if found != wanted:
                text = f"life {life} of {job_id} is {end.status} with {found} effects"
                yield Violation(text, (job_id,))


def recorded_success(versions: list[Version], life: int) -> bool:
    """Whether a worker, and no operator, recorded the success of a life."""
    return any(
        version.life == life and version.status == "SUCCESSFUL" and old.is_running
        for old, version in pairwise(versions)
        if is_by_worker(version)
    )


@verdict(
    "children of atomic jobs", "what an atomic job enqueues exists once it succeeds"
)
def children(evidence: Evidence) -> Iterator[Violation]:
    born = Counter(
        versions[0].mark
        for versions in evidence.honest.values()
        if (versions[0].mark or "").endswith("/child")
    )
    for job_id, versions in evidence.honest.items():
        if versions[0].task in ATOMIC:
            wanted = sum(recorded_success(versions, life) for life in lives(versions))
            found = born[f"{versions[0].mark}/child"]
            if found != wanted:
                text = f"job {job_id} succeeded {wanted} x and has {found} children"
                yield Violation(text, (job_id,))


@verdict("double step", "an atomic step takes effect once in a life")
def double_step(evidence: Evidence) -> Iterator[Violation]:
    steps = Counter(
        (effect.job_id, effect.life)
        for effect in evidence.effects
        if effect.what == "step"
    )
    for (job_id, life), number in steps.items():
        if number > 1:
            yield Violation(f"a step of {job_id}, life {life}: {number} x", (job_id,))


@verdict("called twice", "a job whose call has succeeded is not called again in it")
def called_twice(evidence: Evidence) -> Iterator[Violation]:
    done = Counter(
        (effect.job_id, effect.life, effect.attempt)
        for effect in evidence.effects
        if effect.what == "done"
    )
    for (job_id, life, attempt), number in done.items():
        if number > 1:
            text = f"attempt {attempt} of {job_id}, life {life}: done {number} x"
            yield Violation(text, (job_id,))


@verdict("success without a run", "what is recorded as successful was executed")
def unearned(evidence: Evidence) -> Iterator[Violation]:
    ran = {(effect.job_id, effect.life) for effect in evidence.effects}
    for job_id, versions in evidence.honest.items():
        if versions[0].task in SILENT:
            continue
        for life, end in lives(versions).items():
            is_success = end.status == "SUCCESSFUL" and ENDS.get(end.task) == SUCCEEDS
            is_earned = (job_id, life) in ran or not recorded_success(versions, life)
            if is_success and not is_earned:
                yield Violation(f"life {life} of {job_id} never ran", (job_id,))


@verdict("run without a claim", "bodies run only in attempts that were claimed")
def unclaimed(evidence: Evidence) -> Iterator[Violation]:
    claimed = {
        (version.job_id, version.life, version.attempts)
        for version in evidence.versions
        if version.is_running
    }
    for effect in evidence.effects:
        if (effect.job_id, effect.life, effect.attempt) not in claimed:
            text = f"attempt {effect.attempt} of {effect.job_id} ran unclaimed"
            yield Violation(text, (effect.job_id,))
