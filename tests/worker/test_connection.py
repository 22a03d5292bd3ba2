"""The worker's own connection: what it has prepared is there, whatever was undone."""

import psycopg
import pytest

from pgjobs.worker.connections.connection import (
    OwnConnection,
    Watchdog,
    beat_cheaply,
    plan_once,
)
from tests.actors import execute
from tests.processes import shared_queue

pytestmark = shared_queue

DOUBLED = ("SELECT 2 * %(number)s::int", {"number": 4})
TWICE = [DOUBLED, DOUBLED]


@pytest.fixture
def prepared_by(transactional_db):
    """Return a connection of a worker, given what prepares it."""
    watchdog, made = Watchdog(), []

    def connection_prepared_by(prepare) -> OwnConnection:
        names = "default", "loop", "own"
        made.append(OwnConnection(*names, watchdog, limit=10, prepare=prepare))
        return made[-1]

    yield connection_prepared_by
    for each in made:
        each.close()
    watchdog.stop()


@pytest.fixture
def own(prepared_by):
    return prepared_by(plan_once)


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


@pytest.mark.direct
def test_only_a_heartbeat_does_not_wait_for_the_disk(prepared_by):
    for prepare, waits in ((beat_cheaply, "off"), (plan_once, "on")):
        assert prepared_by(prepare).execute("SHOW synchronous_commit") == [(waits,)]
