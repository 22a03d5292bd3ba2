"""Recording: what becomes of jobs that have run."""

import json
import logging
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import psycopg
from django.db import connections

from ..base.database_errors import text_of
from ..conf import settings
from ..features import modules
from ..sql import statement
from .claiming import ClaimedJob, Success, success_parameters
from .statements import Execute, array

logger = logging.getLogger("pgjobs.worker")

LONGEST_LOG = 64_000


class Completed(NamedTuple):
    """A job whose task recorded its success in its own transaction."""

    id: int
    lease_token: int


class Unsuccessful(NamedTuple):
    """A job whose attempt did not succeed, and the verdict on it."""

    id: int
    lease_token: int
    # FAIL, RETRY, SNOOZE, RELEASE, UNKNOWN or CANCEL, see record.sql; or SUSPEND.
    verdict: str
    reason: str
    delay: float = 0.0  # seconds before the job may run again
    has_begun: bool = True  # False: its body never began, so a rate counts no start
    exception_class: str = ""
    message: str = ""
    traceback: str = ""
    dependencies: dict | None = None  # to store in the job's row, if not None
    # What failed in the same way, if a feature tells: see `outcomes.details_of`.
    error_group: int | None = None
    place: str = ""
    pattern: str = ""
    # A feature's statement that stores it in place of `record`, and what that needs.
    statement: str = ""
    stores: dict[str, Any] | None = None
    error: BaseException | None = None  # for receivers of signals; not stored

    def as_json(self) -> dict:
        """Return what the database gets."""
        return {k: v for k, v in self._asdict().items() if k != "error"}

    def in_ascii(self) -> "Unsuccessful":
        """Return the outcome with escapes, for a database of another encoding."""
        return self._replace(
            reason=escaped(self.reason),
            message=escaped(self.message),
            exception_class=escaped(self.exception_class),
            traceback=escaped(self.traceback),
            place=escaped(self.place),
            pattern=escaped(self.pattern),
        )


Outcome = Success | Completed | Unsuccessful


def escaped(text: str) -> str:
    """Return a text with escapes for what is no ASCII, and no longer than it was."""
    return text.encode("ascii", "backslashreplace").decode()[: len(text)]


def release(job: ClaimedJob, reason: str, *, has_begun: bool = True) -> Unsuccessful:
    """Return the outcome of a job that goes back to the queue; nothing failed."""
    return released(job.id, job.lease_token, reason, has_begun)


def released(id: int, lease_token: int, reason: str, has_begun: bool) -> Unsuccessful:
    return Unsuccessful(
        id, lease_token, "RELEASE", reason, message=reason, has_begun=has_begun
    )


class Recorded(NamedTuple):
    lease_token: int
    status: str


def locked(execute: Execute, worker_id: int, ids: Iterable[int]) -> set[int]:
    """Return the lease tokens of those jobs whose rows another transaction holds."""
    parameters = {"worker_id": worker_id, "ids": array(ids)}
    return {token for (token,) in execute(statement("locked"), parameters)}


def record(
    execute: Execute,
    worker_id: int,
    worker_name: str,
    unsuccessful: Sequence[Unsuccessful],
) -> list[Recorded]:
    """Record attempts that did not succeed; return what became of their jobs.

    A job's end matters more than what is known about its failure. So if the database
    refuses to store that, the job ends without it.
    """
    recorded: list[Recorded] = []
    for name in sorted({each.statement for each in unsuccessful}):
        outcomes = [each.as_json() for each in unsuccessful if each.statement == name]
        parameters = {
            "worker_id": worker_id,
            "worker_name": worker_name,
            "outcomes": json.dumps(outcomes),
        }
        if name:
            recorded += recorded_by(execute, name, parameters)
        else:
            recorded += record_by_core(execute, parameters)
    return recorded


def record_by_core(execute: Execute, parameters: dict) -> list[Recorded]:
    parameters = parameters | {
        "unknown_task_grace": settings.UNKNOWN_TASK_GRACE,
        "version": settings.VERSION,
    }
    for name, refused in parts().items():
        try:
            return recorded_by(execute, name, parameters)
        except psycopg.ProgrammingError as error:
            logger.error("Jobs end without their %s: %s", refused, text_of(error))
    return recorded_by(execute, "record_without_attempt", parameters)


@cache
def parts() -> dict[str, str]:
    """Return what a job can end without, by the statement that stores it."""
    of_features = {module.STATEMENT: module.STORES for module in modules("failure")}
    return {**of_features, "record": "attempts"}


def recorded_by(execute: Execute, name: str, parameters: dict) -> list[Recorded]:
    return [Recorded._make(row) for row in execute(statement(name), parameters)]


def record_successes(
    execute: Execute, worker_id: int, worker_name: str, successes: Sequence[Success]
) -> list[Recorded]:
    """Record jobs that succeeded, without a claim; return which were recorded."""
    parameters = success_parameters(worker_id, successes, worker_name)
    rows = execute(statement("record_successes"), parameters)
    return [Recorded(token, "SUCCESSFUL") for token, _ in rows]


def recorded_before(execute: Execute, outcomes: Sequence[Outcome]) -> list[Recorded]:
    """Return which outcomes were stored although the answer was lost."""
    rows = execute(
        statement("in_doubt"),
        {
            "ids": array(outcome.id for outcome in outcomes),
            "lease_tokens": array(outcome.lease_token for outcome in outcomes),
        },
    )
    return [Recorded._make(row) for row in rows]


@cache
def deleting() -> Any:
    """Return the module of the feature that deletes successes unless needed."""
    (module,) = modules("successes")
    return module


def orphans(
    execute: Execute, worker_id: int, lease_tokens: Iterable[int]
) -> list[Unsuccessful]:
    """Return releases of the jobs that the worker owns without knowing them."""
    rows = execute(
        statement("orphans"),
        {"worker_id": worker_id, "lease_tokens": array(lease_tokens)},
    )
    reason = "Released: the answer to its claim was lost."
    return [released(id, token, reason, has_begun=False) for id, token in rows]


def cancel_requests(execute: Execute, worker_id: int, held: Iterable[int]) -> list[int]:
    """Return the lease tokens of those jobs that were asked to stop, of these ids."""
    parameters = {"worker_id": worker_id, "held": array(held)}
    rows = execute(statement("cancel_requests"), parameters)
    return [token for (token,) in rows]


def still_owned(database: str, id: int, lease_token: int) -> bool:
    """Ask on Django's connection whether the job still has this lease token."""
    with connections[database].cursor() as cursor:
        cursor.execute(statement("still_owned"), {"id": id, "lease_token": lease_token})
        return cursor.fetchone()[0]


def report_in_ascii(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report with escapes, as `Unsuccessful.in_ascii`."""
    return {
        name: escaped(value) if isinstance(value, str) else value
        for name, value in report.items()
    }


def report(execute: Execute, worker_id: int, reports: Sequence[dict]) -> set[int]:
    """Store progress and log lines of running jobs; return the ids of those jobs."""
    rows = execute(
        statement("report"),
        {
            "worker_id": worker_id,
            "reports": json.dumps(reports),
            "longest_log": LONGEST_LOG,
        },
    )
    return {id for (id,) in rows}
