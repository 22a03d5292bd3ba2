"""What deletes successes in place of storing them; the core asks for it by its name.

The statements are sent in place of those that store successes: see `Client`.
"""

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from django.db import transaction
from django.db.models import DateTimeField
from psycopg.errors import LockNotAvailable

from ... import signals
from ...base.connections import is_pooled
from ...base.database_errors import is_lost, is_of_some_rows, text_of
from ...conf import settings
from ...exceptions import InvalidTask, ResultGone
from ...models.job import Job
from ...queue import claiming, recording
from ...queue.claiming import Claimed, Success
from ...queue.new_job import NewJob
from ...queue.recording import Outcome, Recorded
from ...queue.statements import Statement, array, execute_on
from ...sql import statement

if TYPE_CHECKING:
    from ...worker.claimer import Room
    from ...worker.in_flight import InFlight
    from ...worker.recorder import Recorder

logger = logging.getLogger("pgjobs.worker")

IN_PLACE_OF = {
    statement("record_successes"): statement("record_or_delete"),
    statement("record_and_claim"): statement("record_or_delete_and_claim"),
}


def kinds() -> tuple[str, ...]:
    """Return the values of `Job.keep` with which successes go unless needed."""
    return ("failed", "worker") if settings.KEEP == "failed" else ("failed",)


class Client:
    """What sends statements; of those that store successes, the ones that delete."""

    def __init__(self, client: Any, deletable: Sequence[Success]):
        self.client = client
        self.deletable = array(ids_of(deletable))

    def in_place_of(self, query: str, parameters: dict) -> Statement:
        if (other := IN_PLACE_OF.get(query)) is None:
            return query, parameters
        return other, {**parameters, "deletable": self.deletable}

    def execute(self, query: str, parameters: dict) -> list[tuple]:
        return self.client.execute(*self.in_place_of(query, parameters))

    def together(self, statements: Sequence[Statement]) -> list[list[tuple]]:
        return self.client.together([self.in_place_of(*each) for each in statements])


def ids_of(outcomes: Sequence[Outcome]) -> list[int]:
    return [outcome.id for outcome in outcomes]


def deletable_of(in_flight: "InFlight", successes: Sequence[Success]) -> list[Success]:
    tokens = in_flight.deletable
    return [success for success in successes if success.lease_token in tokens]


def completing(query: str, keep: str) -> str:
    """Return what completes an atomic job, which is pruned once nothing needs its row.

    `keep`: what its row says. If that leaves it to the worker, the row says from then
    on what the setting of the worker said.
    """
    if keep == "worker" and keep in kinds():
        return query.replace("/*keep*/", "keep = 'failed',")
    return query


# With a claim, and without


def recording_and_claiming(recorder: "Recorder") -> Callable[..., Claimed]:
    """Return what stands in for `claiming.record_and_claim`."""
    return partial(record_and_claim, recorder)


def record_and_claim(
    recorder: "Recorder",
    client: claiming.Client,
    worker_id: int,
    *,
    successes: Sequence[Success],
    **how: Any,
) -> Claimed:
    if deletable := deletable_of(recorder.in_flight, successes):
        client = Client(client, deletable)
    with doubting(recorder.in_flight, deletable):
        return claiming.record_and_claim(client, worker_id, successes=successes, **how)


def record_alone(recorder: "Recorder", room: "Room") -> "Room":
    """Record what may go by itself, beside an admission or if somebody hears of it."""
    deletable = deletable_of(recorder.in_flight, room.successes)
    if not deletable:
        return room
    if not (room.admits or signals.is_heard(Job, "SUCCESSFUL")):
        return room
    recorder.record_successes(deletable)
    others = [success for success in room.successes if success not in deletable]
    return room._replace(successes=others)


def record(recorder: "Recorder", successes: Sequence[Success]) -> list[Recorded]:
    """Record successes without a claim; what cannot be deleted is stored."""
    deletable = deletable_of(recorder.in_flight, successes)
    store = partial(
        recording.record_successes,
        worker_id=recorder.worker_id,
        worker_name=recorder.options.name,
        successes=successes,
    )
    if not deletable:
        return store(recorder.connection.execute)
    if signals.is_heard(Job, "SUCCESSFUL"):
        recorder.announcer.rows |= rows_of(recorder, deletable)
    try:
        with doubting(recorder.in_flight, deletable):
            return store(Client(recorder.connection, deletable).execute)
    except psycopg.Error as error:
        is_of_some = is_of_some_rows(error) or isinstance(error, LockNotAvailable)
        if is_lost(error) or (len(successes) > 1 and is_of_some):
            raise  # the recorder tries halves of them
        keep(recorder.in_flight, deletable, error)
        return store(recorder.connection.execute)


def keep(
    in_flight: "InFlight", deletable: Sequence[Success], error: psycopg.Error
) -> None:
    """Store these from now on."""
    in_flight.deletable -= {each.lease_token for each in deletable}
    logger.warning(
        "Successes are kept, because their rows cannot be deleted: jobs=%s: %s",
        ", ".join(map(str, ids_of(deletable))),
        text_of(error),
    )


# An answer that is lost


@contextmanager
def doubting(in_flight: "InFlight", deletable: Sequence[Success]) -> Iterator[None]:
    """Remember those that a statement may have deleted whose answer is lost."""
    try:
        yield
    except psycopg.Error as error:
        if is_lost(error) or error.sqlstate is None:
            in_flight.in_doubt |= {each.lease_token for each in deletable}
        raise


def deleted_before(recorder: "Recorder", outcomes: Sequence[Outcome]) -> dict[int, str]:
    """Return the statuses of those that were deleted although the answer was lost."""
    tokens = recorder.in_flight.in_doubt
    doubtful = [each for each in outcomes if each.lease_token in tokens]
    rows = recorder.connection.execute(
        statement("gone"), {"ids": array(ids_of(doubtful))}
    )
    gone = {id for (id,) in rows}
    return {each.lease_token: "SUCCESSFUL" for each in doubtful if each.id in gone}


# What is heard of it


def rows_of(recorder: "Recorder", successes: Sequence[Success]) -> dict[int, str]:
    """Return by id, as JSON, the rows that these successes would leave."""
    parameters = {
        "worker_name": recorder.options.name,
        "ids": array(ids_of(successes)),
        "return_values": [each.return_value for each in successes],
    }
    return dict(recorder.connection.execute(statement("rows_of_successes"), parameters))


def job_of(database: str, row: str) -> Job:
    """Return the instance of a row that was deleted."""
    values: dict[str, Any] = json.loads(row)
    columns = {}
    for field in Job._meta.concrete_fields:
        value = values[field.column]
        if isinstance(field, DateTimeField):
            value = field.to_python(value)
        columns[field.attname] = value
    return Job.of_columns(database, columns)


# What needs a row: a caller that waits, and a job that will come after it

# The mark is there at once, and goes with the connection. The second lock says that
# there are marks at all. (The classes are "pgjc" and "pgja" in ASCII.)
MARK = """
SELECT pg_advisory_lock_shared(1885825635, (%(id)s::bigint %% 2147483648)::int),
    pg_advisory_lock_shared(1885825633, 0)
"""
# The rows stay until the links to them are committed: a worker that would delete one of
# them passes over those that are locked, or has been first.
HOLD = """
SELECT id FROM pgjobs_job WHERE id = ANY (%(ids)s::bigint[]) ORDER BY id FOR KEY SHARE
"""


def result_gone(id: int, task: str) -> ResultGone:
    return ResultGone(
        f"Job {id} ({task}) has no row any more. With keep='failed' a success is "
        "deleted unless something needs it: wait before its end, or say keep='all'."
    )


def with_keep(new_jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return new jobs with PGJOBS["KEEP"] where neither task nor job says it."""
    return [
        new_job if new_job.keep else new_job._replace(keep=settings.KEEP)
        for new_job in new_jobs
    ]


def mark(connection: psycopg.Connection, id: int) -> None:
    """Say that a process waits for a job, whose row may be locked by others.

    Behind a pooler the lock would stay with the pooler's session.
    """
    if not is_pooled(connection):
        connection.execute(MARK, {"id": id})


def insert_holding(
    insert: Callable, model: type[Job], database: str, new_jobs: Sequence[NewJob]
) -> Any:
    """Insert jobs after some whose rows may go; raise InvalidTask if one has gone.

    `insert`: what inserts them, as `insert_rows` does.
    """
    ids = {id for new_job in new_jobs for id in new_job.holds}
    with transaction.atomic(using=database):
        rows: list[tuple] = execute_on(database)(HOLD, {"ids": array(ids)})
        if gone := ids - {id for (id,) in rows}:
            raise InvalidTask(
                f"after: job {min(gone)} is gone. With keep='failed' the row of a "
                "success is deleted unless something needs it by then: enqueue both in "
                "one transaction, as a chain, or say keep='all' for the first."
            )
        return insert(model, database, new_jobs)
