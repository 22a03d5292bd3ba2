"""What a process declares, beside processes that run another version of the code.

Each stores its manifest: its tasks, schedules and subscriptions. Of the manifests of
living workers, the newest that declares a name decides. docs/architecture/features.md
says more.
"""

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import OperationalError, transaction
from psycopg.errors import LockNotAvailable

from ..base.queue_database import declare_alone
from ..conf import settings
from ..models.definition import Synced
from ..models.schedule_units import as_declared, fields_of
from ..queue import manifests
from ..queue.events import BATCH, catch_up, deliver_late
from ..queue.held_locks import DECLARING, held_locks
from ..queue.manifests import FOREVER, LIVES, REMEMBERED, Decided, Entry
from ..queue.statements import execute_on
from . import definitions, events, schedules, tables

Returned = tuple[str, datetime]  # a task, and since when it handled no events

logger = logging.getLogger("pgjobs.tasks")

TASK, SCHEDULE, SUBSCRIPTION = "task", "schedule", "subscription"
# What versions may say differently of a task without harm.
REMARKS = ("origin", "description")
# The manifest that this process has stored in each database.
stored_ids: dict[str, int] = {}


def entries(database: str) -> Iterator[Entry]:
    """Yield all that this process declares; raise InvalidTask, InvalidArguments."""
    for fields in definitions.declared():
        value = {name: fields[name] for name in fields if name != "name"}
        matters = {name: value[name] for name in value if name not in REMARKS}
        yield entry(TASK, fields["name"], "", value, matters)
    for name, fields in schedules.declared(database).items():
        value = {"task": fields["task"], "declared": as_declared(fields)}
        yield entry(SCHEDULE, name, "", value, value)
    for (task, event), value in events.declared().items():
        yield entry(SUBSCRIPTION, task, event, value, value)


def entry(kind: str, name: str, event: str, value: Any, matters: Any) -> Entry:
    return Entry(
        kind, name, event, digest_of(matters), json.dumps(value, sort_keys=True)
    )


def digest_of(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def store_declared(database: str) -> None:
    """Store what the process of a worker declares, before it starts.

    Nothing that others have declared goes. If another session holds a lock, the worker
    starts all the same, and tries again each minute.
    """
    with giving_up(database):
        declare(database, lives=LIVES, memory=FOREVER, others_go=False)


@contextmanager
def giving_up(database: str) -> Iterator[None]:
    """Log that a lock is held for too long, instead of raising."""
    try:
        yield
    except OperationalError as error:
        if not isinstance(error.__cause__, LockNotAvailable):
            raise
        logger.warning(
            "What the code declares is not stored: another session holds a lock for "
            "too long (%s). Workers try again each minute.",
            ", ".join(in_the_way(database)) or "gone by now",
        )


def in_the_way(database: str) -> list[str]:
    """Return, in words, the sessions that keep others from declaring."""
    return [
        f"pid={each.pid} role={each.role} application={each.application}"
        for each in held_locks(execute_on(database))
        if each.kind == DECLARING
    ]


def store_for_an_hour(database: str) -> Synced:
    """Store what this process declares, as if a worker of it lived for an hour.

    What nobody has declared for an hour goes. Returns which tasks have changed.
    """
    return declare(database, lives=REMEMBERED, memory=REMEMBERED, others_go=True)


def declare(database: str, *, lives: float, memory: float, others_go: bool) -> Synced:
    """Store the manifest of this process, and bring the tables in line."""
    found = list(entries(database))
    digest = digest_of(sorted((*each[:3], each.value) for each in found))
    execute = execute_on(database)
    with transaction.atomic(using=database):
        declare_alone(database)
        view = manifests.look(execute, None)
        stored = manifests.store(
            execute, settings.VERSION or digest, digest, found, lives
        )
        stored_ids[database] = stored.id
        if stored.is_in_force and not (others_go or view.has_strangers):
            return Synced([], [], [])  # so that thousands of tasks start in no time
        synced, returned = apply(database, memory, others_go and not view.has_strangers)
    deliver_missed(database, returned)
    return synced


def bring_in_line(database: str) -> None:
    """Let tasks, schedules and subscriptions say what living versions declare.

    For a worker that may judge whether others live. What none of them declares goes.
    """
    with giving_up(database):
        with transaction.atomic(using=database):
            declare_alone(database)
            view = manifests.look(execute_on(database), None)
            _, returned = apply(database, 0.0, others_go=not view.has_strangers)
        deliver_missed(database, returned)


def apply(
    database: str, memory: float, others_go: bool
) -> tuple[Synced, list[Returned]]:
    """Store what the newest living versions declare; see `manifests.decided`.

    `others_go`: whether tasks, schedules and subscriptions that none of them declares
    are gone. They must stay while a worker lives of which nobody knows what it
    declares. Returns the tasks that have changed, and the handlers that have returned.
    """
    execute = execute_on(database)
    found = manifests.decided(execute, memory)
    synced = tables.TaskDefinition.objects.db_manager(database).sync(
        [{"name": name, **value} for name, _, value in of_kind(TASK, found)], others_go
    )
    tables.Schedule.objects.db_manager(database).declare(
        {
            name: {"task": value["task"], **fields_of(value["declared"])}
            for name, _, value in of_kind(SCHEDULE, found)
        },
        others_go,
    )
    returned = tables.Subscription.objects.db_manager(database).declare(
        {(name, event): value for name, event, value in of_kind(SUBSCRIPTION, found)},
        others_go,
    )
    if others_go:
        manifests.settle(execute, memory)
    return synced, returned


def of_kind(kind: str, found: list[Decided]) -> Iterator[tuple[str, str, Any]]:
    for each in found:
        if each.kind == kind:
            yield each.name, each.event, json.loads(each.value)


def deliver_missed(database: str, returned: list[Returned]) -> None:
    """Deliver the events that handlers have missed.

    New subscribers get the events of the last UNHANDLED_EVENT_GRACE seconds that had no
    subscriber. Returning subscribers get those that were published while nobody
    declared them.
    """
    grace = settings.UNHANDLED_EVENT_GRACE
    for task_name, inactive_at in returned:
        catch_up(database, task_name, inactive_at, grace)
    execute = execute_on(database)
    while deliver_late(execute, grace) == BATCH:
        pass  # there may be more
