"""No statement of a worker reads more beside a crowd of rows that do not concern it.

`python -m benchmarks.ten_thousand` does the same with ten thousand of everything.
"""

import pytest

from benchmarks import busy_cases, crowds
from pgjobs.base.connections import connect
from pgjobs.worker.connections.connection import ONE_PLAN
from tests import harness
from tests.processes import shared_queue
from tests.settings import TEST_DATABASE

pytestmark = shared_queue

NUMBER, WAITING = 1_000, 10_000
# Whether a look-up in a table of some pages reads its few rows or an index is a matter
# of a page more or less: up to 34 rows for each of eight keys.
ROWS_OF_A_STAGE = 300


@pytest.fixture
def own():
    """A connection of a worker, and empty tables afterwards."""
    with connect("default", "test", "crowds") as connection:
        yield connection
        crowds.empty(harness.keep(TEST_DATABASE))


KNOWN: dict[str, int] = {}


@pytest.fixture
def few(own) -> dict[str, int]:
    """What each statement reads beside hardly anything; it is measured once."""
    if not KNOWN:
        first, second = (blocks_beside(own, "", 1, 1) for _ in range(2))
        KNOWN.update({name: min(first[name], second[name]) for name in first})
    return KNOWN


def blocks_beside(own, crowd: str, number: int, waiting: int) -> dict[str, int]:
    crowds.fill(harness.keep(TEST_DATABASE), crowd, number, waiting)
    return dict(crowds.measured(own))


@pytest.mark.slow
@pytest.mark.parametrize("crowd", crowds.CROWDS)
def test_statement_reads_no_more_beside_a_crowd(own, few, crowd):
    bounds = {name: crowds.bound(crowd, name, few[name], NUMBER) for name in few}
    many = blocks_beside(own, crowd, NUMBER, WAITING)
    # A change of any table makes the next run of a statement read the catalogue as
    # well. What a crowd adds is read in each run.
    again = {
        name: crowds.blocks_read(own, crowds.cases()[name])
        for name in few
        if many[name] > bounds[name]
    }
    grown = {
        name: (few[name], many[name], blocks)
        for name, blocks in again.items()
        if blocks > bounds[name]
    }
    assert grown == {}


# What waits here is of each kind that a statement might read on its way.
UNSEEN = (
    "priorities",
    "lock keys",
    "rate keys",
    "schedules",
    "schedules that wait for their run",
    "unhandled events",
    "chains",
    "unknown tasks",
    "finished jobs",
    "jobs that finished long ago",
    "dead letters",
    "groups of errors",
    "entries of the audit trail",
)


def rows_read_unseen(own, crowd: str, number: int, waiting: int) -> dict[str, int]:
    crowds.fill_unseen(harness.keep(TEST_DATABASE), crowd, number, waiting)
    return dict(busy_cases.all_rows_read(own))


@pytest.mark.slow
@pytest.mark.parametrize("crowd", UNSEEN)
def test_statement_reads_no_more_beside_a_crowd_where_the_planner_expects_none(
    own, crowd
):
    """VACUUM says that a table is empty, and then a large transaction commits."""
    few = rows_read_unseen(own, crowd, 1, 1)
    many = rows_read_unseen(own, crowd, NUMBER, WAITING)
    grown = {
        name: (few[name], many[name])
        for name in few
        if many[name] > crowds.bound(crowd, name, few[name], NUMBER) + ROWS_OF_A_STAGE
    }
    assert grown == {}


def nodes(plan: dict) -> list[dict]:
    return [plan, *(node for part in plan.get("Plans", ()) for node in nodes(part))]


def test_pruning_reads_only_the_old_jobs_of_its_slice(own):
    crowds.fill(harness.keep(TEST_DATABASE), "jobs that finished long ago", 1, 5_000)
    own.execute(ONE_PLAN)
    # PostgreSQL 15 did without this sort, and read all old jobs for each part.
    own.execute("SET enable_incremental_sort = off")
    case = crowds.cases()["prune"]
    case = case._replace(parameters=case.parameters | {"limit": 100})
    plan = crowds.plan_of(own, case)
    read = [
        node["Actual Rows"]
        for node in nodes(plan)
        if node.get("Index Name") == "pgjobs_job_finished"
    ]
    assert 100 <= sum(read) <= 101
