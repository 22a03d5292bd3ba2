"""The subscriptions in the manifest of a process; see definitions/declaring.py."""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from ...conf import settings
from ...queue.statements import execute_on
from ...tasks import tables
from .declare import declared
from .queue import BATCH, catch_up, deliver_late

KIND = "subscription"
Returned = tuple[str, datetime]  # a task, and since when it handled no events


def entries(database: str) -> Iterator[tuple[str, str, Any]]:
    for (task, event), value in declared().items():
        yield task, event, value


def apply(
    database: str, found: Iterable[tuple[str, str, Any]], others_go: bool
) -> Callable[[], None]:
    """Store the subscriptions. What is returned delivers what they have missed."""
    subscriptions = tables.Subscription.objects.db_manager(database)
    rows = {(name, event): value for name, event, value in found}
    return partial(deliver_missed, database, subscriptions.declare(rows, others_go))


def deliver_missed(database: str, returned: list[Returned]) -> None:
    """Deliver the events that handlers have missed.

    New subscribers get the events of the last UNHANDLED_EVENT_GRACE seconds that had no
    subscriber. Returning subscribers get those that were published while no code
    declared them.
    """
    grace = settings.UNHANDLED_EVENT_GRACE
    for task_name, inactive_at in returned:
        catch_up(database, task_name, inactive_at, grace)
    execute = execute_on(database)
    while deliver_late(execute, grace) == BATCH:
        pass  # there may be more
