"""What a process declares, beside processes that run another version of the code.

Each stores its manifest: its tasks, and what `manifest.py` of a feature yields as
`entries`, such as schedules. Of the manifests of living workers, the newest that
declares a name decides. `apply` of the feature stores that, and may return a function
to call after the commit. docs/architecture/features.md says more.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

from django.db import OperationalError, transaction
from psycopg.errors import LockNotAvailable

from ...base.queue_database import declare_alone
from ...conf import settings
from ...features import modules
from ...queue.statements import execute_on
from ..standstill.held_locks import DECLARING, held_locks
from . import definitions, manifests
from .definitions import Synced
from .manifests import FOREVER, LIVES, REMEMBERED, Decided, Entry

logger = logging.getLogger("pgjobs.tasks")

TASK = "task"
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
    for module in modules("manifest"):
        for name, event, value in module.entries(database):
            yield entry(module.KIND, name, event, value, value)


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
        f"pid={lock.pid} role={lock.role} application={lock.application}"
        for lock in held_locks(execute_on(database))
        if lock.kind == DECLARING
    ]


def store_for_an_hour(database: str) -> Synced:
    """Store what this process declares, as if a worker of it lived for an hour.

    What no process has declared for an hour goes. Returns which tasks have changed.
    """
    return declare(database, lives=REMEMBERED, memory=REMEMBERED, others_go=True)


def declare(database: str, *, lives: float, memory: float, others_go: bool) -> Synced:
    """Store the manifest of this process, and bring the tables up to date."""
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
        synced, later = apply(database, memory, others_go and not view.has_strangers)
    for run in later:
        run()
    return synced


def bring_up_to_date(database: str) -> None:
    """Let tasks, schedules and subscriptions say what living versions declare.

    For a worker that may judge whether others live. What none of them declares goes.
    """
    with giving_up(database):
        with transaction.atomic(using=database):
            declare_alone(database)
            view = manifests.look(execute_on(database), None)
            _, later = apply(database, 0.0, others_go=not view.has_strangers)
        for run in later:
            run()


def apply(
    database: str, memory: float, others_go: bool
) -> tuple[Synced, list[Callable[[], None]]]:
    """Store what the newest living versions declare; see `manifests.decided`.

    `others_go`: whether tasks, schedules and subscriptions that none of them declares
    are gone. They must stay while a worker lives whose declarations are unknown.
    Returns the tasks that have changed, and what is to do after the commit.
    """
    execute = execute_on(database)
    found = manifests.decided(execute, memory)
    tasks = [{"name": name, **value} for name, _, value in of_kind(TASK, found)]
    synced = definitions.sync(database, tasks, others_go)
    applied = [
        module.apply(database, of_kind(module.KIND, found), others_go)
        for module in modules("manifest")
    ]
    if others_go:
        manifests.settle(execute, memory)
    return synced, [later for later in applied if later is not None]


def of_kind(kind: str, found: list[Decided]) -> Iterator[tuple[str, str, Any]]:
    for each in found:
        if each.kind == kind:
            yield each.name, each.event, json.loads(each.value)
