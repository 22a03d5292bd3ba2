"""Nothing is lost and nothing comes from nowhere: compare jobs with the journals."""

from collections import Counter
from collections.abc import Iterator

from chaos.journal import ACKNOWLEDGED, IN_DOUBT, ROLLED_BACK

from .evidence import PRUNER, Evidence, Violation
from .outbox import is_delivery
from .verdicts import verdict

# Kinds of transactions that need not leave a job for each mark.
OF_EVENTS, OF_UNIQUE = "event", "unique"


def marks_seen(evidence: Evidence) -> set[str]:
    """Return the marks of all that was committed: of jobs, and of events."""
    jobs = {versions[0].mark for versions in evidence.by_job.values()}
    events = {delivery.mark for delivery in evidence.deliveries}
    return {mark for mark in jobs | events if mark}


@verdict("lost", "what a COMMIT acknowledged exists, and is not deleted")
def lost(evidence: Evidence) -> Iterator[Violation]:
    seen = marks_seen(evidence)
    for transaction in evidence.transactions:
        if transaction.outcome == ACKNOWLEDGED and transaction.kind != OF_UNIQUE:
            for mark in set(transaction.marks) - seen:
                yield Violation(f"{transaction.kind} {mark} was committed and is gone")
        for job_id in transaction.ids:
            if job_id not in evidence.by_job:
                yield Violation(f"job {job_id} was committed and is gone", (job_id,))
    for job_id, versions in evidence.by_job.items():
        last = versions[-1]
        may_go = last.actor == PRUNER or (
            last.is_deleted_by_worker and last.status == "SUCCESSFUL"
        )
        if last.is_gone and not may_go:
            yield Violation(f"job {job_id} was deleted", (job_id,))


@verdict("phantom", "what was rolled back, or never asked for, does not exist")
def phantom(evidence: Evidence) -> Iterator[Violation]:
    known = {mark for each in evidence.transactions for mark in each.marks}
    undone = {
        mark
        for each in evidence.transactions
        if each.outcome == ROLLED_BACK
        for mark in each.marks
    }
    for job_id, versions in evidence.honest.items():
        mark = (versions[0].mark or "").removesuffix("/child")
        if mark in undone:
            yield Violation(f"job {job_id} ({mark}) was rolled back", (job_id,))
        elif mark and mark != "hostile" and mark not in known:
            yield Violation(f"job {job_id} ({mark}) was never asked for", (job_id,))


@verdict("half a transaction", "of a transaction all jobs exist, or none")
def half(evidence: Evidence) -> Iterator[Violation]:
    seen = marks_seen(evidence)
    for transaction in evidence.transactions:
        if transaction.outcome == IN_DOUBT:
            there = seen & set(transaction.marks)
            if there and len(there) < len(transaction.marks):
                yield Violation(f"of {transaction.number} only {sorted(there)} exist")


@verdict("enqueued twice", "each request makes one job")
def twice(evidence: Evidence) -> Iterator[Violation]:
    firsts = [versions[0] for versions in evidence.honest.values()]
    marks = Counter(
        (first.task, first.mark)
        for first in firsts
        if first.mark
        and first.mark != "hostile"
        and not is_delivery(evidence, first)
        and first.first_id is None
    )
    for (task, mark), number in marks.items():
        if number > 1 and not mark.endswith("/child"):
            jobs = tuple(each.job_id for each in firsts if each.mark == mark)
            yield Violation(f"{task} {mark} has {number} jobs", jobs)
