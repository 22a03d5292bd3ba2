"""Which roles may execute the functions, and with which settings they run."""

import pytest
from django.db import transaction

from pgjobs.worker.connections.connection import PATH_OF_FUNCTIONS
from tests import harness
from tests.actors import execute, session
from tests.settings import SCHEMA, TEST_DATABASE

pytestmark = pytest.mark.django_db

ROLE = f"writer_{TEST_DATABASE}"
PUBLIC = """
SELECT proname FROM pg_proc
WHERE proname LIKE 'pgjobs%' AND has_function_privilege('public', oid, 'EXECUTE')
ORDER BY proname
"""
# What producers of jobs call by themselves.
DOORS = [
    "pgjobs_cancel",
    "pgjobs_enqueue",
    "pgjobs_insert_job",
    "pgjobs_job_status",
    "pgjobs_publish",
    "pgjobs_retry",
]
WAITING_FOR_EVENTS = (
    """INSERT INTO pgjobs_job (task, keys) VALUES ('new', '{"waits_for": ["x"]}')"""
)
STARTED = """
SELECT set_config('pgjobs.admits', 'on', true);
INSERT INTO pgjobs_job (task, keys)
VALUES ('new', '{"rate_key": "mail", "rate_interval": 6, "rate_burst": 10}');
UPDATE pgjobs_job SET status = 'READY', waiting_for = NULL, line = NULL
WHERE task = 'new';
UPDATE pgjobs_job SET last_attempted_at = now() WHERE task = 'new'
"""
PAUSED = "INSERT INTO pgjobs_job (task) VALUES ('paused')"
NEEDED_BY_WRITERS = {
    "pgjobs_changes_flow": STARTED,
    "pgjobs_cluster": WAITING_FOR_EVENTS,
    "pgjobs_ends_for_others": "UPDATE pgjobs_job SET status = 'SUCCESSFUL',"
    """ finished_at = now(), keys = '{"lock": "door"}'""",
    "pgjobs_enqueued_in": WAITING_FOR_EVENTS,
    "pgjobs_fault_of_results": "INSERT INTO pgjobs_job (task, keys) VALUES ('new',"
    """ '{"results": {}}')""",
    "pgjobs_first_line": "UPDATE pgjobs_job SET status = 'READY'",
    "pgjobs_first_obstacle": "UPDATE pgjobs_job SET status = 'READY'",
    "pgjobs_follow_up": "UPDATE pgjobs_job SET status = 'SUCCESSFUL',"
    """ finished_at = now(), keys = '{"on_success": "new"}'""",
    "pgjobs_free_keys": "SELECT pgjobs_free_keys('{key}')",
    "pgjobs_holds_key": "INSERT INTO pgjobs_job (task, unique_key, unique_for)"
    " VALUES ('new', 'key', 'unfinished')",
    "pgjobs_is_job": "INSERT INTO pgjobs_job (task) VALUES ('new')",
    "pgjobs_keys_now": STARTED,
    "pgjobs_line": PAUSED,
    "pgjobs_paused_line": PAUSED,
    "pgjobs_rate_number": STARTED,
    "pgjobs_leave_note": "DELETE FROM pgjobs_job",
    # Python's enqueue, where a unique key is taken.
    "pgjobs_replace_held": "SELECT pgjobs_replace_held('{key}', '{unfinished}', '{}',"
    " '{}', '{}', '{}', '{}', '{}', '{}')",
    # Every claim, for a token that another server has given.
    "pgjobs_token_beyond": "SELECT pgjobs_token_beyond(1)",
    "pgjobs_provide": "INSERT INTO pgjobs_job (task, dependencies) VALUES ('new',"
    """ '{"needs": [], "provides": [{"key": "k", "for": 5}]}')""",
}


@pytest.fixture(scope="module")
def new_role():
    with harness.role("writer"):
        yield


@pytest.fixture
def role(new_role, db):
    """A role that may write rows in the test's transaction, and nothing else."""
    tables = "pgjobs_job, pgjobs_note, pgjobs_predecessor, pgjobs_prerequisite"
    execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {ROLE}")
    execute(f"GRANT SELECT ON pgjobs_override TO {ROLE}")
    execute(f"GRANT USAGE ON SEQUENCE pgjobs_lease_token TO {ROLE}")
    execute(
        "INSERT INTO pgjobs_override (kind, key, paused_at, rate_number, rate_seconds)"
        " VALUES ('task', 'paused', now(), NULL, NULL), ('rate', 'mail', NULL, 1, 60)"
    )
    execute(
        "INSERT INTO pgjobs_job (task, run_after, keys)"
        " VALUES ('later', now() + interval '1 hour', '{\"lock\": \"door\"}')"
    )


def write(statement: str) -> None:
    """Run a statement as the role."""
    with transaction.atomic():
        execute(f"SET LOCAL ROLE {ROLE}")
        execute(statement)
        execute("RESET ROLE")


def test_public_may_execute_only_what_writers_of_rows_need():
    assert [name for (name,) in execute(PUBLIC)] == sorted(NEEDED_BY_WRITERS)


@pytest.mark.parametrize("statement", NEEDED_BY_WRITERS.values(), ids=NEEDED_BY_WRITERS)
def test_role_with_rights_on_the_tables_writes_rows(role, statement):
    write(statement)


@pytest.mark.parametrize(("name", "statement"), NEEDED_BY_WRITERS.items())
def test_role_could_not_write_rows_without_what_public_may_execute(
    role, name, statement
):
    """This keeps the list from growing beyond what is needed."""
    execute(f"REVOKE EXECUTE ON ROUTINE {name} FROM PUBLIC")
    with pytest.raises(Exception, match=f"permission denied for function {name}"):
        write(statement)


@pytest.mark.parametrize("kind", ["prosecdef", "proname = ANY (%(doors)s)"])
def test_function_that_others_call_has_a_search_path_of_its_own(kind):
    """Their names mean our tables, whatever the caller's search_path says."""
    paths = execute(
        f"""
        SELECT proname, (
            SELECT setting FROM unnest(proconfig) AS setting
            WHERE setting LIKE 'search_path=%%'
        )
        FROM pg_proc WHERE proname LIKE 'pgjobs%%' AND {kind}
        """,
        {"doors": DOORS},
    )
    assert {path for _, path in paths} <= {f"search_path={SCHEMA}, pg_temp"}
    assert len(paths) == (0 if kind == "prosecdef" else len(DOORS))


def test_loop_has_the_search_path_of_the_functions():
    """Otherwise PostgreSQL would compile shared functions again and again."""
    ((settings,),) = execute(
        "SELECT proconfig FROM pg_proc WHERE proname = 'pgjobs_queue_changed'"
    )
    with session() as loop:
        loop.execute(PATH_OF_FUNCTIONS)
        assert settings == [f"search_path={loop.execute('SHOW search_path')[0][0]}"]
