"""What pruning has left because something needs it, and why."""

import json
from collections import Counter

from ..sql import statement
from .parts import OLDEST, Position
from .references import sparing_referred
from .statements import Execute
from .upkeep import BATCH, limited_ages

# What `why_kept.sql` calls the reasons. Those of other tables are told by these.
REASONS = {
    "admission": "a worker has still to see that it has ended",
    "schedule": "the last run of a schedule",
    "unique": "it holds its unique key",
    "dependency": "what depends on it would run it again",
    "successor": "a job still waits for it",
    "batch": "without it its batch would end otherwise",
    "retry": "a retry of the job because of which it was cancelled would revive it",
}


def count_kept(execute: Execute, ages: dict[str, float | None]) -> dict[str, int]:
    """Count the jobs that are old enough to be pruned and needed, by their reasons.

    Jobs to which tables of the project refer are not among them.
    """
    total: Counter[str] = Counter()
    for status, age in limited_ages(ages).items():
        position: Position | None = OLDEST
        while position is not None:
            counted, position = count_part(execute, status, age, position)
            total.update(counted)
    return {text: total[name] for name, text in REASONS.items() if total[name]}


def count_part(
    execute: Execute, status: str, age: float, position: Position
) -> tuple[dict[str, int], Position | None]:
    """Count in a part; return also behind which job to go on, or None at the end."""
    text = sparing_referred(execute, "kept_jobs", "pgjobs_job", "job")
    parameters = {"status": status, "age": age, "limit": BATCH, **position._asdict()}
    ((counted, has_more, time, id),) = execute(text, parameters)
    return json.loads(counted), Position(time, id) if has_more else None


def count_kept_events(execute: Execute, age: float | None) -> int:
    """Count the events that are old enough to be pruned and have deliveries to come.

    Deliveries that have failed may be retried.
    """
    if age is None:
        return 0
    total, position = 0, OLDEST
    while True:
        parameters = {"age": age, "limit": BATCH, **position._asdict()}
        ((number, has_more, time, id),) = execute(statement("kept_events"), parameters)
        total += number
        if not has_more:
            return total
        position = Position(time, id)
