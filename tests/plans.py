"""The plans of the worker's statements, as PostgreSQL explains them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pgjobs import enqueue_many
from pgjobs.base.connections import connect
from pgjobs.worker.connections.connection import (
    ONE_PLAN,
    OwnConnection,
    Watchdog,
    plan_once,
)
from tests.tasks import noop

TABLES = ("job", "schedule", "tick", "errorgroup", "predecessor", "worker")
GROWING = re.compile(
    "pgjobs_(job|schedule|tick|errorgroup|predecessor)_(pkey|running|last_job|once)"
)


@contextmanager
def own_connection() -> Iterator[OwnConnection]:
    """Open a connection as the loop has it, which plans each statement once."""
    watchdog = Watchdog()
    own = OwnConnection("default", "test", "own", watchdog, 10, prepare=plan_once)
    yield own
    own.close()
    watchdog.stop()


def scans(plan: dict) -> Iterator[dict]:
    """Yield the index scans of a plan."""
    if "Index Name" in plan:
        yield plan
    for child in plan.get("Plans", ()):
        yield from scans(child)


def scans_of_whole_indexes(
    own: OwnConnection, text: str, parameters: dict
) -> list[dict]:
    """Return those of a plan that is made for small tables and kept as they grow."""
    enqueue_many([noop.bind() for _ in range(100)])
    for table in TABLES:
        own.execute(f"VACUUM ANALYZE pgjobs_{table}")
    ((explained,),) = own.execute(
        f"EXPLAIN (FORMAT JSON) {text}", {"worker_id": 1, **parameters}
    )
    by_key = [
        scan
        for scan in scans(explained[0]["Plan"])
        if GROWING.fullmatch(scan["Index Name"])
    ]
    assert by_key
    return [scan for scan in by_key if "Index Cond" not in scan]


def plan_for_old_rows(text: str, parameters: dict) -> str:
    """Return how a pruning statement chooses what goes, in the words of EXPLAIN."""
    with connect("default", "test", "explain") as own:
        own.execute(ONE_PLAN)
        plan = own.execute(f"EXPLAIN {text}", parameters).fetchall()
    for_old, _, _ = "\n".join(line for (line,) in plan).partition("CTE pruned")
    return for_old
