"""Jobs and outcomes as what JSON can say."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...exceptions import RemoteError
from ...queue.claiming import ClaimedJob, Success
from ...queue.recording import Completed, Outcome, Unsuccessful

KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Success, Completed, Unsuccessful)
}


def packed_job(job: ClaimedJob) -> Sequence[Any]:
    values = job._asdict() | {"enqueued_at": job.enqueued_at.isoformat()}
    return list(values.values())


def unpacked_job(values: Sequence[Any]) -> ClaimedJob:
    named = dict(zip(ClaimedJob._fields, values, strict=True))
    moment = datetime.fromisoformat(named["enqueued_at"])
    return ClaimedJob(**named | {"enqueued_at": moment})


def packed_outcome(outcome: Outcome) -> tuple[str, Sequence[Any]]:
    if isinstance(outcome, Unsuccessful):
        outcome = outcome._replace(error=None)
    return type(outcome).__name__, outcome


def unpacked_outcome(job: ClaimedJob, kind: str, values: Sequence[Any]) -> Outcome:
    """Return the outcome of this job; raises KeyError or TypeError for another."""
    outcome = KINDS[kind]._make(values)
    if (outcome.id, outcome.lease_token) != (job.id, job.lease_token):
        raise KeyError(outcome.id)
    if isinstance(outcome, Unsuccessful) and outcome.exception_class:
        error = RemoteError(outcome.exception_class, outcome.message, outcome.traceback)
        return outcome._replace(error=error)
    return outcome
