"""A worker's pass costs the server no more work than it did, counted and not timed.

PostgreSQL starts each node of a plan, and parses the condition of each trigger, with
every statement, also where they have nothing to do. A change that needs more raises a
bound here, and says what it brings.
"""

import re
from collections.abc import Iterator

import pytest

from pgjobs import enqueue_many
from pgjobs.queue.claiming import Fetch, Range, claim_statement
from pgjobs.queue.recording import Success
from tests import tasks
from tests.actors import Hand, execute
from tests.plans import own_connection
from tests.processes import shared_queue

pytestmark = shared_queue

FETCH = Fetch(2_010, ranges=[Range(100, 1, 0), Range(0, 0, 0), Range(-1, -100, 0)])
# What the triggers ask of the rows that a claim and a success write.
CONDITIONS = """
SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger
WHERE tgrelid = 'pgjobs_job'::regclass AND NOT tgisinternal
    AND tgattr::int2[] && ARRAY(
        SELECT attnum FROM pg_attribute WHERE attrelid = tgrelid AND attname = ANY (%s)
    )
"""
SET = re.compile(r"^(?:SET )?(\w+) = ", re.MULTILINE)


def pass_of(number: int) -> tuple[dict, list]:
    """Return the plan of a pass that records and claims so many, and what triggers ran.

    The passes before it have read the catalogue.
    """
    enqueue_many([tasks.noop.bind() for _ in range(4 * number)])
    with own_connection() as own:
        hand = Hand(execute=own.execute)
        for _ in range(3):
            query, parameters = claim_statement(
                hand.id, running_jobs(hand.id), number, FETCH
            )
            ((explained,),) = own.execute(
                f"EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) {query}", parameters
            )
        assert len(running_jobs(hand.id)) == number
    return explained[0]["Plan"], explained[0]["Triggers"]


def running_jobs(worker_id: int) -> list[Success]:
    query = "SELECT id, lease_token FROM pgjobs_job WHERE worker_id = %s"
    return [Success(*row, None) for row in execute(query, [worker_id])]


def nodes(plan: dict) -> Iterator[dict]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


@pytest.mark.parametrize(
    ("number", "blocks", "records", "bytes_of_log"),
    [(1, 36, 9, 800), (10, 260, 100, 8_500)],
)
def test_pass_reads_and_writes_no_more_than_it_did(
    number, blocks, records, bytes_of_log
):
    plan, triggers = pass_of(number)
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] <= blocks
    assert plan["WAL Records"] <= records
    # The first change of a page after a checkpoint brings all of it.
    assert plan["WAL Bytes"] <= bytes_of_log or plan["WAL FPI"]
    assert triggers == []


def test_plan_of_a_pass_starts_few_nodes():
    plan, _ = pass_of(1)
    assert len(list(nodes(plan))) <= 44


def test_conditions_that_a_pass_has_parsed_are_short():
    query, _ = claim_statement(1, (), 1, FETCH)
    named = set(SET.findall(query))
    assert {"status", "worker_id", "last_attempted_at"} <= named
    found = dict(execute(CONDITIONS, [list(named)]))
    assert set(found) == {
        "pgjobs_notify_changed",
        "pgjobs_queue_changed",
        "pgjobs_note_started",
    }
    conditions = [
        re.sub(r"\s+", " ", text.partition(" WHEN ")[2]) for text in found.values()
    ]
    assert sum(map(len, conditions)) <= 700
