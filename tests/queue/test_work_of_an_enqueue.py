"""An enqueue costs the caller and the server no more work than it did, counted.

A change that needs more raises a bound here, and says what it brings.
"""

import re
import sys

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


def calls_in(run) -> int:
    """Return how many functions are called, those of C, too."""
    number = 0

    def count(frame, event, argument):
        nonlocal number
        number += event in ("call", "c_call")

    run()  # what it imports and keeps
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        run()
    finally:
        sys.setprofile(before)
    return number


def test_one_enqueue_is_one_statement_and_few_calls():
    with CaptureQueriesContext(connection) as queries:
        enqueue(tasks.noop)
    assert len(queries) == 1
    assert calls_in(lambda: enqueue(tasks.noop)) <= 330


def test_a_hundred_jobs_are_one_statement_and_few_calls_each():
    with CaptureQueriesContext(connection) as queries:
        enqueue_many([tasks.noop.bind() for _ in range(100)])
    assert len(queries) == 1
    run = lambda: enqueue_many([tasks.noop.bind() for _ in range(100)])  # noqa: E731
    assert calls_in(run) <= 5_000
