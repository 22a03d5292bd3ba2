"""Roles: what a producer of jobs needs, as docs/sql.md says it, and nothing less."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.db import transaction
from psycopg.types.json import Jsonb

from pgjobs import chain, subscribe, task
from pgjobs.features.roles.views import view_statements
from pgjobs.models import Job, Note, Prerequisite
from pgjobs.queue.upkeep import prune_left_rows
from tests import harness
from tests.actors import Hand, execute, statuses
from tests.database.test_migrations import OBJECTS, migrate
from tests.features.dependencies import exports  # noqa: F401  (SQL names it)
from tests.settings import SCHEMA, TEST_DATABASE
from tests.sql import enqueued, psql, refused
from tests.support import dependent_tasks
from tests.support.declared import store_definitions, store_subscriptions
from tests.tasks import add

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = ROOT / "docs/sql.md"
GRANTS = dict(
    re.findall(
        r"```sql\n-- grants: ([^\n]*)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL
    )
)
ROLE = f"producer_{TEST_DATABASE}"
CALLS = (
    "SELECT * FROM pgjobs_enqueue('tests.add', '{\"a\": 1}')",
    "CALL pgjobs_insert_job('tests', 'add', 1, '{\"a\": 1}')",
)


@pytest.fixture(autouse=True, scope="module")
def role():
    """A role whose rights go with the test's transaction."""
    with harness.role("producer"):
        yield


@pytest.fixture(autouse=True)
def tasks(role, db):
    declare_tasks()
    store_definitions("default")


def declare_tasks() -> None:
    task(name="tests.locked", lock="x-{path}", max_running=2, rate="5/day")(file)
    task(name="tests.replaced", unique=True, on_conflict="replace")(other_file)
    task(name="tests.unique", unique=True)(third_file)


def file(path: str): ...
def other_file(path: str): ...
def third_file(path: str): ...
def handler(a: int): ...


def grant(*titles: str) -> None:
    for title in titles:
        psql(GRANTS[title].replace("producer", ROLE).replace("public", SCHEMA))


@contextmanager
def acting() -> Iterator[None]:
    """Be the role."""
    psql(f"SET LOCAL ROLE {ROLE}")
    try:
        yield
    finally:
        psql("RESET ROLE")


def call(statement: str) -> list[tuple]:
    with acting():
        return psql(statement)


@pytest.mark.parametrize("statement", CALLS)
def test_role_without_the_right_is_refused_the_functions_with_a_reason(statement):
    with refused("42501", "permission denied for (function|procedure)"):
        call(statement)


@pytest.mark.parametrize("statement", CALLS)
def test_right_to_the_functions_lends_no_right_to_the_tables(statement):
    """The functions are SECURITY INVOKER, so EXECUTE is not enough."""
    psql(f"GRANT EXECUTE ON ALL ROUTINES IN SCHEMA {SCHEMA} TO {ROLE}")
    with refused("42501", "permission denied for table"):
        call(statement)


@pytest.mark.parametrize("statement", CALLS)
def test_producer_enqueues(statement):
    grant("producer")
    call(statement)
    assert Job.objects.get().kwargs == {"a": 1, "b": 1}


def test_producer_gets_the_same_errors_as_the_owner():
    grant("producer")
    with refused("22023", "valid integer", column="a"):
        call("SELECT * FROM pgjobs_enqueue('tests.add', '{\"a\": \"x\"}')")
    with refused("22023", "No task registered"):
        call("SELECT * FROM pgjobs_enqueue('missing', '{}')")


def test_producer_inserts_plain_rows_and_unique_jobs_and_asks_for_a_status():
    grant("producer")
    call("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")
    unique = "SELECT * FROM pgjobs_enqueue('tests.unique', '{\"path\": \"a\"}')"
    ((first,),) = call(unique)
    assert call(unique) == [(first,)]
    assert call(f"SELECT pgjobs_job_status({first})") == [("READY",)]


def test_producer_names_only_results_that_it_may_read():
    """A worker reads them, with more rights than a producer has."""
    grant("producer")
    id = add.enqueue(1).pk
    entry = f'{{"value": {{"of": "result", "jobs": [{id}]}}}}'
    insert = (
        "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.echo', "
        f'\'{{"after": [{id}], "results": {entry}}}\')'
    )
    psql(f"REVOKE SELECT ON pgjobs_job FROM {ROLE}")
    with refused("23514", "names what the role may not read"):
        call(insert)
    psql(f"GRANT SELECT ON pgjobs_job TO {ROLE}")
    call(insert)
    assert Job.objects.get(task="tests.echo").keys["results"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE pgjobs_job SET priority = 5",
        "DELETE FROM pgjobs_job",
        "DELETE FROM pgjobs_taskdefinition",
        "UPDATE pgjobs_taskdefinition SET options = '{}'",
        "SELECT pgjobs_cancel(1)",
        "SELECT pgjobs_retry(1)",
        "SELECT * FROM pgjobs_worker",
    ],
)
def test_producer_may_do_nothing_else(statement):
    grant("producer")
    with refused("42501"):
        call(statement)


LOCKED = "SELECT * FROM pgjobs_enqueue('tests.locked', '{\"path\": \"a\"}')"
REPLACED = "SELECT * FROM pgjobs_enqueue('tests.replaced', '{\"path\": \"a\"}')"


def test_producer_enqueues_what_must_wait_and_batches():
    grant("producer")
    ((first,),), ((second,),) = call(LOCKED), call(LOCKED)
    Hand()
    assert statuses() == ["READY", "WAITING"]
    assert Job.objects.get(pk=second).blocked_by_id == first
    arguments = """'{"client_id": 1, "format": "ALL"}'"""
    everything = (
        f"SELECT count(*) FROM pgjobs_enqueue('exports.export_data', {arguments})"
    )
    assert call(everything) == [(3,)]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("id", 5), ("turn", 1), ("status", "FAILED"), ("line", "arrived")),
        *(("attempts", 7), ("crashes", 1), ("lease_token", 5), ("worker_id", 9)),
        *(("batch_id", 5), ("finished_at", "2020-01-01"), ("awaited", True)),
    ],
)
def test_producer_cannot_write_what_is_the_queue_s(column, value):
    grant("producer")
    call("INSERT INTO pgjobs_job (task, kwargs) VALUES ('tests.add', '{\"a\": 1}')")
    with refused("42501"), acting():
        psql(
            f"INSERT INTO pgjobs_job (task, {column}) VALUES ('tests.add', %s)",
            [value],
        )


CHANGES = "producer that also changes jobs"


def test_replacing_needs_more():
    grant("producer")
    ((first,),) = call(REPLACED)
    with refused("42501"):
        call(REPLACED)
    grant(CHANGES)
    assert call(REPLACED) == [(first,)]


def test_acts_need_more():
    grant("producer", CHANGES)
    first, _ = chain(add.bind(1), add.bind(2)).enqueue()
    assert statuses() == ["READY", "WAITING"]
    assert call(f"SELECT pgjobs_cancel({first.pk})") == [(True,)]
    assert statuses() == ["CANCELLED", "CANCELLED"]
    assert call(f"SELECT pgjobs_retry({first.pk})") == [(True,)]
    assert statuses() == ["READY", "WAITING"]


def test_acts_on_jobs_that_others_depend_on_need_no_more():
    job = dependent_tasks.refresh_client.enqueue("x", 1)
    grant("producer", CHANGES)
    assert call(f"SELECT pgjobs_cancel({job.pk})") == [(True,)]
    assert not Prerequisite.objects.exists()
    assert call(f"SELECT pgjobs_retry({job.pk})") == [(True,)]
    assert Prerequisite.objects.get().job_id == job.pk


PUBLISH = "SELECT pgjobs_publish('a.b', '{\"a\": 1}', aggregate_id => 'c')"


def test_publishing_needs_more():
    subscribe("a.*", ordered_by="aggregate")(task(name="tests.handler")(handler))
    store_subscriptions("default")
    grant("producer")
    with refused("42501"):
        call(PUBLISH)
    grant("producer that also publishes")
    ((event,),) = call(PUBLISH)
    assert Job.objects.get().delivery.event_id == event
    with refused("42501"):
        call("UPDATE pgjobs_event SET payload = '{}'")


def test_no_function_runs_with_the_rights_of_its_owner():
    definers = "SELECT proname FROM pg_proc WHERE prosecdef AND proname LIKE 'pgjobs%'"
    assert psql(definers) == []


@pytest.mark.parametrize(
    "keys",
    [
        {"lock": "door", "is_ordered": False},
        {"limit_key": "mail", "max_running": 1},
        {"rate_key": "mail", "rate_interval": 1.0, "rate_burst": 1},
        {"after": [1]},
        {"after_batches": [1]},
        {"batch_id": 1},
    ],
    ids=lambda keys: next(iter(keys)),
)
def test_role_that_may_only_insert_inserts_jobs_with_keys(keys):
    psql(f"GRANT INSERT ON pgjobs_job TO {ROLE}")
    for _ in range(2):
        with acting():
            psql(
                "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %s)",
                [Jsonb(keys)],
            )
    assert Job.objects.filter(keys=keys).count() == 2


def test_role_that_may_only_delete_leaves_no_note_and_the_sweep_finds_the_rest():
    psql(f"GRANT SELECT, DELETE ON pgjobs_job TO {ROLE}")
    first, _ = chain(add.bind(1), add.bind(2)).enqueue()
    assert statuses() == ["READY", "WAITING"]
    call(f"DELETE FROM pgjobs_job WHERE id = {first.pk}")
    assert not Note.objects.exists()
    assert statuses() == ["CANCELLED"]


TABLES_OF_JOBS = tuple(
    f"pgjobs_{name}" for name in ("attempt", "progress", "step", "tick", "delivery")
)
# One row of each table whose rows belong to jobs.
BELONGINGS = """
INSERT INTO pgjobs_schedule (name, task, cron)
    VALUES ('of {job}', 'tests.add', '0 3 * * *');
INSERT INTO pgjobs_event (name) VALUES ('paid');
INSERT INTO pgjobs_attempt (job_id, life, number, worker_name, finished_at, outcome)
    VALUES ({job}, 1, 1, 'worker', now(), 'FAILED');
INSERT INTO pgjobs_progress (job_id, message, log, updated_at)
    VALUES ({job}, '', '', now());
INSERT INTO pgjobs_step (job_id, life, name, attempt, finished_at)
    VALUES ({job}, 1, 'pay', 1, now());
INSERT INTO pgjobs_tick (schedule_id, time, job_id)
    SELECT max(id), now(), {job} FROM pgjobs_schedule;
INSERT INTO pgjobs_delivery (event_id, task, job_id)
    SELECT max(id), 'tests.add', {job} FROM pgjobs_event
"""


def left(job: Job) -> int:
    """Return how many rows of a job are left in all tables."""
    counts = (
        f"(SELECT count(*) FROM {table} WHERE job_id = {job.pk})"
        for table in TABLES_OF_JOBS
    )
    return psql(f"SELECT {' + '.join(counts)}")[0][0]


def job_with_belongings() -> Job:
    job = add.enqueue(1)
    for statement in BELONGINGS.format(job=job.pk).split(";"):
        psql(statement)
    assert left(job) == len(TABLES_OF_JOBS)
    return job


@pytest.mark.parametrize("statement", ["DELETE FROM pgjobs_job", "TRUNCATE pgjobs_job"])
def test_what_belongs_to_a_job_goes_with_it(statement):
    job = job_with_belongings()
    psql(statement)
    assert left(job) == 0


def test_what_a_role_that_may_only_delete_jobs_has_left_is_pruned():
    psql(f"GRANT SELECT, DELETE ON pgjobs_job TO {ROLE}")
    job, other = job_with_belongings(), job_with_belongings()
    call(f"DELETE FROM pgjobs_job WHERE id = {job.pk}")
    assert left(job) == len(TABLES_OF_JOBS)
    assert prune_left_rows(execute) == (1, None)
    assert (left(job), left(other)) == (0, len(TABLES_OF_JOBS))


def test_admin_of_the_database_needs_no_grant():
    assert len(enqueued("""'{"a": 1}'""", "tests.add")) == 1


# Views


def test_views_of_a_role_hinder_no_migration():
    """`migrate` makes them again, and the role reads them as before."""
    reads = "SELECT has_table_privilege('pg_monitor', 'pgjobs_report_lines', 'SELECT')"
    with transaction.atomic():
        execute("\n".join(view_statements("pg_monitor")))
        before = set(execute(OBJECTS))
        migrate("0003")
        assert execute("SELECT to_regclass('pgjobs_report_lines')") == [(None,)]
        migrate()
        assert set(execute(OBJECTS)) == before
        assert execute(reads) == [(True,)]
        transaction.set_rollback(True)
