"""Jobs that come from others: follow-ups, and what a batch lets run."""

from collections.abc import Iterator
from itertools import pairwise

from .evidence import Evidence, Version, Violation
from .expectations import CONCLUSIONS, FOLLOW_UPS
from .states import OPERATORS, transition_of
from .verdicts import verdict


@verdict(
    "follow-up without its options", "a follow-up has the key and lock of its task"
)
def follow_ups(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.honest.items():
        first = versions[0]
        if first.task not in FOLLOW_UPS:
            continue
        if not (first.unique_key and first.lock and first.queue != "default"):
            text = f"{first.task} {job_id} has not all that its task says"
            yield Violation(text, (job_id,))


@verdict("batch ended otherwise", "what comes after a failed batch never runs")
def batches(evidence: Evidence) -> Iterator[Violation]:
    """Judge by all versions of the batch: pruning may have deleted its jobs."""
    by_mark = {versions[0].mark: versions for versions in evidence.honest.values()}
    for transaction in evidence.transactions:
        members = [by_mark[mark] for mark in transaction.marks if mark in by_mark]
        if any(was_touched(versions) for versions in members):
            continue
        for versions in members:
            ran = any(version.is_running for version in versions)
            if versions[0].task in CONCLUSIONS and ran:
                job_id = versions[0].job_id
                text = f"{versions[0].task} {job_id} ran after a batch that failed"
                yield Violation(text, tuple(member[0].job_id for member in members))


def was_touched(versions: list[Version]) -> bool:
    """Whether an operator has decided something about a job."""
    return any(version.actor.startswith(OPERATORS) for version in versions)


@verdict("ran again in one life", "what has ended runs again only in another life")
def again(evidence: Evidence) -> Iterator[Violation]:
    for job_id, versions in evidence.by_job.items():
        for old, new in pairwise(versions):
            is_back = old.is_finished and new.is_unfinished and new.life <= old.life
            if is_back and transition_of(old, new) != "revive":
                text = f"life {old.life} of {job_id} went on after {old.status}"
                yield Violation(text, (job_id,))
