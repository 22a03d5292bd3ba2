"""An enqueue costs the caller and the server no more work than it did, counted.

A change that needs more raises a bound here, and says what it brings.
"""

import re
import sys
from types import CodeType
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from pgjobs import enqueue, enqueue_many
from pgjobs.queue.new_job import parameters_of_alike, parameters_of_one
from pgjobs.sql import statement, statement_of
from tests import tasks
from tests.actors import execute
from tests.plans import own_connection
from tests.processes import shared_queue
from tests.traced_job import TOOL

pytestmark = shared_queue

# What PostgreSQL parses of the triggers for each INSERT.
CONDITIONS = """
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
WHERE tgrelid = 'pgjobs_job'::regclass AND NOT tgisinternal AND tgtype::integer & 4 > 0
"""


def explained(number: int) -> dict:
    """Return what PostgreSQL says of the INSERT of so many plain jobs.

    Those before it have read the catalogue.
    """
    new_jobs = [tasks.noop.bind().new_job for _ in range(number)]
    if number == 1:
        parameters = parameters_of_one(new_jobs[0])
        query = statement_of("enqueue_one", tuple(parameters))
    else:
        query, parameters = statement("enqueue_alike"), parameters_of_alike(new_jobs)
    with own_connection() as own:
        for _ in range(3):
            ((found,),) = own.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) {query}", parameters
            )
    return found[0]


@pytest.mark.parametrize(
    ("number", "blocks", "records", "bytes_of_log"),
    [(1, 30, 5, 520), (100, 1_100, 420, 46_000)],
)
def test_insert_reads_and_writes_no_more_than_it_did(
    number, blocks, records, bytes_of_log
):
    plan = explained(number)["Plan"]
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= blocks
    assert plan["WAL Records"] <= records
    # The first change of a page after a checkpoint brings all of it.
    assert plan["WAL Bytes"] <= bytes_of_log or plan["WAL FPI"]


@pytest.mark.parametrize("number", [1, 100])
def test_plain_job_calls_one_trigger_and_its_statement_another(number):
    triggers = explained(number)["Triggers"]
    calls = {each["Trigger Name"]: each["Calls"] for each in triggers}
    # It has a call only where its table has a page: where there was an override.
    calls.pop("pgjobs_see_pauses", None)
    assert calls == {"pgjobs_check_job": number, "pgjobs_notify_inserted": 1}


def test_conditions_that_an_insert_has_parsed_are_short():
    found: dict[str, str] = dict(execute(CONDITIONS))
    assert set(found) == {
        "pgjobs_see_pauses",
        "pgjobs_queue_inserted",
        "pgjobs_stop_inserted",
        "pgjobs_check_job",
        "pgjobs_notify_inserted",
    }
    conditions = [
        re.sub(r"\s+", " ", text.partition(" WHEN ")[2]) for text in found.values()
    ]
    assert sum(map(len, conditions)) <= 620


def test_one_enqueue_is_one_statement():
    with CaptureQueriesContext(connection) as queries:
        enqueue(tasks.noop)
    assert len(queries) == 1


def test_a_hundred_jobs_are_one_statement():
    with CaptureQueriesContext(connection) as queries:
        enqueue_many([tasks.noop.bind() for _ in range(100)])
    assert len(queries) == 1


def calls_in(run) -> int:
    """Return how many functions of Python begin."""
    events: Any = sys.monitoring  # type: ignore[attr-defined]
    begun: list[CodeType] = []

    def begins(code: CodeType, _: int) -> None:
        begun.append(code)

    run()  # what it imports and keeps
    events.use_tool_id(TOOL, __name__)
    try:
        events.register_callback(TOOL, events.events.PY_START, begins)
        events.set_events(TOOL, events.events.PY_START)
        run()
    finally:
        events.set_events(TOOL, events.events.NO_EVENTS)
        events.free_tool_id(TOOL)
    return len(begun)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="needs sys.monitoring")
@pytest.mark.parametrize(("number", "most"), [(1, 200), (100, 2_600)])
def test_enqueue_calls_few_functions(number, most):
    def run():
        if number == 1:
            enqueue(tasks.noop)
        else:
            enqueue_many([tasks.noop.bind() for _ in range(number)])

    assert calls_in(run) <= most
