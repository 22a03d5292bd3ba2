"""Jobs and outcomes as what JSON can say."""

from datetime import datetime
from typing import Any

from ...exceptions import RemoteError
from ...queue.claiming import ClaimedJob, Success
from ...queue.recording import Completed, Outcome, Unsuccessful

KINDS: dict[str, Any] = {
    kind.__name__: kind for kind in (Success, Completed, Unsuccessful)
}


def packed_job(job: ClaimedJob) -> dict[str, Any]:
    return job._asdict() | {"enqueued_at": job.enqueued_at.isoformat()}


def unpacked_job(values: dict[str, Any]) -> ClaimedJob:
    moment = datetime.fromisoformat(values["enqueued_at"])
    return ClaimedJob(**values | {"enqueued_at": moment})


def packed_outcome(outcome: Outcome) -> tuple[str, dict[str, Any]]:
    values = outcome._asdict()
    values.pop("error", None)
    return type(outcome).__name__, values


def unpacked_outcome(job: ClaimedJob, kind: str, values: dict[str, Any]) -> Outcome:
    """Return the outcome of this job; raises KeyError or TypeError for another."""
    outcome = KINDS[kind](**values)
    if (outcome.id, outcome.lease_token) != (job.id, job.lease_token):
        raise KeyError(outcome.id)
    if isinstance(outcome, Unsuccessful) and outcome.exception_class:
        error = RemoteError(outcome.exception_class, outcome.message, outcome.traceback)
        return outcome._replace(error=error)
    return outcome
