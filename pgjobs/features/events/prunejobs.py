"""Old events, which the command `prunejobs` deletes, too."""

from functools import partial

from ...conf import settings
from ...queue.slices import Position, Slice, read_slice, sum_of_slices
from ...queue.statements import Execute
from ...sql import statement
from . import queue

NOUN = "event"
KEPT = "jobs that deliver it have failed or not ended"


def age_of(older: float | None) -> float | None:
    return settings.EVENT_RETENTION if older is None else older


def prune(execute: Execute, older: float | None) -> int:
    """Delete events in batches, so that no transaction is long; return how many.

    `older`: seconds since they were published. None leaves it to the setting.
    """
    if (age := age_of(older)) is None:
        return 0
    return sum_of_slices(partial(queue.prune, execute, age))


def count_kept(execute: Execute, older: float | None) -> int:
    """Count the events that are old enough to be pruned and have deliveries to come.

    Deliveries that have failed may be retried.
    """
    if (age := age_of(older)) is None:
        return 0
    return sum_of_slices(partial(count_slice, execute, age))


def count_slice(execute: Execute, age: float, position: Position) -> Slice:
    parameters = {"age": age, "limit": queue.BATCH, **position._asdict()}
    return read_slice(execute(statement("kept_events"), parameters), position)
