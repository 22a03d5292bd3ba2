"""Events: publishing them, and delivering them to the tasks that subscribe.

The functions that take `execute` run a statement on one of the worker's own
connections, the others on Django's.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta

from ...base.moments import instant
from ...base.queue_database import database_time
from ...queue.references import sparing_referred
from ...queue.slices import OLDEST, Position, Slice, read_slice
from ...queue.statements import Execute, execute_on
from ...sql import statement
from ...sql.columns import SUBSCRIBED

BATCH = 1_000  # events that one statement touches
# The options of a handler's jobs, which are columns of its subscription.
HANDLER_OPTIONS = (
    *(column.name for column in SUBSCRIBED if column.name != "task"),
    "expires_in",
)


def publish(
    execute: Execute,
    name: str,
    payload: str,
    aggregate_id: str | None,
    correlation_id: str | None,
    meta: str | None,
) -> tuple[int, datetime]:
    """Insert an event and the jobs of its deliveries, in the caller's transaction.

    `payload` and `meta` are JSON text. Returns the id, and when it was published.
    """
    parameters = {
        "name": name,
        "payload": payload,
        "aggregate_id": aggregate_id,
        "correlation_id": correlation_id,
        "meta": meta,
    }
    ((id, published_at),) = execute(statement("publish"), parameters)
    return id, published_at


def deliver(database: str, ids: list[int], task: str | None, origin: str) -> int:
    """Deliver events to all subscribers, or to one task, that never had them."""
    parameters = {"ids": ids, "task": task, "origin": origin}
    return execute_on(database)(statement("deliver"), parameters)[0][0]


def deliver_late(execute: Execute, grace: float) -> int:
    """Deliver a batch of the events that had no subscriber; return how many.

    `grace`: seconds since they were published.
    """
    parameters = {"grace": grace, "limit": BATCH}
    return execute(statement("deliver_late"), parameters)[0][0]


def catch_up(database: str, task: str, since: datetime, grace: float) -> int:
    """Deliver what was published while the task did not subscribe; return how many.

    Events that were published more than `grace` seconds ago are skipped.
    """
    earliest = database_time(database) - timedelta(seconds=grace)
    batches = replayable(database, task, max(instant(since), earliest), None)
    return sum(deliver(database, ids, task, "late") for ids in batches)


def replayable(
    database: str, task: str, since: datetime, name: str | None
) -> Iterator[list[int]]:
    """Yield, in batches, the ids of events since then to which the task subscribes.

    `name`: only events of this name or pattern, such as "tle.*".
    """
    execute = execute_on(database)
    parameters = {"task": task, "since": since, "name": name, "limit": BATCH}
    after = 0
    while ids := [
        id for (id,) in execute(statement("replayable"), {**parameters, "after": after})
    ]:
        yield ids
        after = ids[-1]


def prune(execute: Execute, age: float, position: Position = OLDEST) -> Slice:
    """Look at a batch of events published longer ago; delete those nothing needs.

    Events with deliveries that have failed, or are not finished, are kept.
    """
    text = sparing_referred(execute, "prune_events", "pgjobs_event", "event")
    parameters = {"age": age, "limit": BATCH, **position._asdict()}
    return read_slice(execute(text, parameters), position)
