"""The worker's own connection: what it has prepared is there, whatever was undone."""

import psycopg
import pytest

from pgjobs import enqueue
from pgjobs.worker.connections.connection import OwnConnection, Watchdog, plan_once
from tests import tasks
from tests.actors import execute
from tests.processes import running_worker, shared_queue, wait_for, wait_for_status
from tests.worker.test_isolation import broken
from tests.worker.test_maintenance import leave_a_schedule_due

pytestmark = shared_queue

DOUBLED = ("SELECT 2 * %(number)s::int", {"number": 4})
TWICE = [DOUBLED, DOUBLED]


@pytest.fixture
def own(transactional_db):
    watchdog = Watchdog()
    connection = OwnConnection(
        "default", "loop", "own", watchdog, limit=10, prepare=plan_once
    )
    yield connection
    connection.close()
    watchdog.stop()


def roll_back(own: OwnConnection) -> None:
    with pytest.raises(RuntimeError), own.transaction():
        own.execute(*DOUBLED)
        raise RuntimeError


def ours(own: OwnConnection) -> int:
    query = "SELECT count(*) FROM pg_prepared_statements WHERE name ~ '^pgjobs_'"
    return own.execute(query)[0][0]


@pytest.mark.direct
def test_what_was_prepared_is_prepared_again_after_a_rollback(own):
    own.together(TWICE)
    for _ in range(2):
        own.execute(*DOUBLED)  # the driver prepares it
    roll_back(own)
    assert ours(own) == 0, "the driver has deallocated all"
    for _ in range(5):
        assert own.together(TWICE) == [[(8,)], [(8,)]]
        assert ours(own) == 1
        roll_back(own)


@pytest.mark.direct
def test_connection_whose_prepared_statements_are_gone_is_replaced(own):
    own.together(TWICE)
    own.execute("DEALLOCATE ALL")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        own.together(TWICE)
    assert own.together(TWICE) == [[(8,)], [(8,)]]


@pytest.mark.direct
@pytest.mark.parametrize("send", ["execute", "together"])
def test_connection_whose_statement_returns_another_type_now_is_replaced(own, send):
    def names() -> list:
        statement = ("SELECT * FROM changing WHERE %(is_wanted)s", {"is_wanted": True})
        if send == "execute":
            return own.execute(*statement)
        return own.together([statement])[0]

    execute("CREATE TABLE changing AS SELECT 'a'::varchar AS name")
    try:
        for _ in range(3):
            assert names() == [("a",)]
        execute("ALTER TABLE changing ALTER name TYPE text")
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            names()
        assert names() == [("a",)]
    finally:
        execute("DROP TABLE changing")


def test_worker_whose_chore_was_rolled_back_goes_on_to_claim_by_queue():
    def runs() -> None:
        job = enqueue(tasks.noop.using(process_units=2))
        wait_for_status(job, "SUCCESSFUL")

    with running_worker(units=3) as loop:
        runs()
        leave_a_schedule_due()
        with broken("fire") as failures:
            loop.upkeep.scheduler.expect()
            loop.bell.ring()
            wait_for(lambda: failures["fire"], "the transaction is rolled back")
            runs()
        runs()
