"""Waiting for the end of a job: NOTIFY wakes, and polling is the guarantee."""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg
from asgiref.sync import sync_to_async
from django.db import connections

from ..base import connections as own_connections
from ..base.database_choice import database_to_change
from ..conf import FINISHED, settings
from ..exceptions import JobCancelled, JobFailed, non_negative_seconds
from ..features import modules
from .recording import deleting
from .statements import Execute, execute_on

if TYPE_CHECKING:
    from ..models.job import Job

NO_WORKER = "Does a worker run that serves its queue (manage.py runjobs)?"
KEPT = (None, "all")  # values of `Job.keep` with which a success stays
HELD_SECONDS = 0.1  # until the next look at a row that another transaction holds

# Reads the job and asks for a notification. It does not wait for a row that another
# transaction holds: that transaction may last, and may end the job without notifying
# us. Then the caller looks again soon.
LOOK = """
WITH asked AS (
    UPDATE pgjobs_job SET awaited = true
    WHERE id = (
        SELECT id FROM pgjobs_job
        WHERE id = %(id)s AND finished_at IS NULL AND NOT awaited
        FOR NO KEY UPDATE SKIP LOCKED
    )
    RETURNING id
)
SELECT id, status, return_value::text, reason, awaited OR EXISTS (SELECT FROM asked),
    coalesce(keys ? 'continued_as', false), keep, keys -> 'encrypted'
FROM pgjobs_job WHERE id = %(id)s
"""

SEE = """
SELECT id, status, return_value::text, reason, false,
    coalesce(keys ? 'continued_as', false), keep, keys -> 'encrypted'
FROM pgjobs_job WHERE id = %(id)s
"""

NEWEST = "SELECT pgjobs_newest(%(id)s)"


class State(NamedTuple):
    id: int  # of the job as which it goes on
    status: str
    return_value: str | None  # JSON text
    reason: str
    will_notify: bool
    goes_on: bool = False  # as another job
    keep: str | None = None
    encrypted: Any = None  # the mark of a feature's encryption


def wait(job: "Job", timeout: float | timedelta | None) -> Any:
    """Return the result of the job once it has ended; see `Job.wait`."""
    if ended := ended_in_transaction(job):
        return result_of(job, ended)
    seconds = None if timeout is None else non_negative_seconds("timeout", timeout)
    deadline = math.inf if seconds is None else monotonic() + seconds
    with listening(database_of(job), job.pk) as connection:
        state = look(connection, job, job.pk)
        if state.status not in FINISHED and state.keep not in KEPT:
            for feature in modules("successes"):
                feature.mark(connection, state.id)
            state = look(connection, job, state.id)
        while state.status not in FINISHED:
            remaining = deadline - monotonic()
            if remaining <= 0:
                cause = f" {NO_WORKER}" if state.status == "READY" else ""
                raise TimeoutError(
                    f"Job {job.pk} is {state.status} after {seconds:g} s of waiting."
                    f"{cause}"
                )
            longest = settings.POLL_INTERVAL if state.will_notify else HELD_SECONDS
            doze(connection, state.id, min(longest, remaining))
            state = look(connection, job, state.id)
    return result_of(job, state)


async def await_result(job: "Job", timeout: float | timedelta | None) -> Any:
    """Return the result of the job once it has ended, from async code."""
    # In the thread of the caller's transaction.
    if ended := await sync_to_async(ended_in_transaction)(job):
        return result_of(job, ended)
    return await sync_to_async(wait, thread_sensitive=False)(job, timeout)


def ended_in_transaction(job: "Job") -> State | None:
    """Return how the job has ended, as the caller's transaction sees it.

    Returns None outside of a transaction. Raises RuntimeError if the caller would wait
    inside of one.
    """
    database = database_of(job)
    if not connections[database].in_atomic_block:
        return None
    state = state_of(execute_on(database), SEE, job.pk)
    if state is None and vars(job).get("keep") not in KEPT:
        raise deleting().result_gone(job.pk, job.task)
    if state is None or state.status not in FINISHED:
        raise RuntimeError(
            f"Waiting for job {job.pk} inside a transaction could last for ever: "
            "what this transaction enqueued starts when it commits. In a test, call "
            "pgjobs.testing.run_jobs() and look at job.return_value, or let the test "
            "commit: TransactionTestCase, or @pytest.mark.django_db(transaction=True)."
        )
    return state


def database_of(job: "Job") -> str:
    """Return where the job runs: a replica cannot notify of its end."""
    return database_to_change(job._state.db) if job._state.db else settings.DATABASE


@contextmanager
def listening(alias: str, id: int) -> Iterator[psycopg.Connection]:
    """Open a connection that is notified of finished jobs."""
    changes = own_connections.listen_changes(alias)
    with own_connections.connect(alias, "wait", str(id), **changes) as connection:
        if settings.LISTEN:
            connection.execute("LISTEN pgjobs_finished")
        yield connection


def look(connection: psycopg.Connection, job: "Job", id: int) -> State:
    def execute(query: str, parameters: dict) -> list[tuple]:
        return connection.execute(query, parameters).fetchall()

    state = state_of(execute, LOOK, id)
    if state is None and vars(job).get("keep") not in KEPT:
        raise deleting().result_gone(id, job.task)
    if state is None:
        raise JobFailed(
            f"Job {id} does not exist (any more): it was deleted, or the transaction "
            "that enqueued it was rolled back."
        )
    return state


def state_of(execute: Execute, query: str, id: int) -> State | None:
    """Return the state of a job, or of that as which it goes on."""
    rows = execute(query, {"id": id})
    if rows and not (state := State._make(rows[0])).goes_on:
        return state
    newest = newest_of(execute, id)
    return None if newest == id else state_of(execute, query, newest)


def newest_of(execute: Execute, id: int) -> int:
    """Return the id of the job as which a job goes on now, or its own."""
    ((newest,),) = execute(NEWEST, {"id": id})
    return newest


def doze(connection: psycopg.Connection, id: int, longest: float) -> None:
    """Sleep until the job's notification, or until the next look is due."""
    deadline = monotonic() + longest
    while (seconds := deadline - monotonic()) > 0:
        for notification in connection.notifies(timeout=seconds, stop_after=1):
            if notification.payload == str(id):
                return


def result_of(job: "Job", state: State) -> Any:
    if state.status == "FAILED":
        raise JobFailed(f"Job {job.pk} ({job.task}) failed: {state.reason}")
    if state.status == "CANCELLED":
        raise JobCancelled(f"Job {job.pk} ({job.task}) was cancelled: {state.reason}")
    value = None if state.return_value is None else json.loads(state.return_value)
    for module in modules("returned"):
        value = module.opened_result(value, state.encrypted)
    return value
