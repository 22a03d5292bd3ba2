"""Migrations: complete, reversible, and with the intended indexes only."""

import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.db import ConnectionHandler, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from pgjobs import enqueue_many
from pgjobs.models import Job
from tests.actors import Hand, execute
from tests.processes import ROOT
from tests.tasks import noop

pytestmark = pytest.mark.django_db

CALLING = {"pgjobs_job_chunk"}
INDEXES = {
    "pgjobs_job_pkey": "(id)",
    "pgjobs_job_in_queue": "(queue_name, COALESCE(process_units, (0)::bigint),"
    " priority DESC, turn) WHERE status = 'READY'",
    "pgjobs_job_in_line": "(priority DESC, turn) WHERE status ~~ 'READY%'",
    "pgjobs_job_scheduled": "(run_after, id) WHERE status = 'SCHEDULED'",
    "pgjobs_job_batch": "(batch_id, status) WHERE (batch_id IS NOT NULL)",
    "pgjobs_job_expiring": "(expires_at) WHERE ((attempts = 0)"
    " AND (expires_at IS NOT NULL) AND (finished_at IS NULL))",
    "pgjobs_job_running": "(worker_id) WHERE status = 'RUNNING'",
    "pgjobs_job_rate": "(((keys ->> 'rate_key'))) WHERE ((keys ? 'rate_key') AND "
    "status = 'READY')",
    "pgjobs_job_turn": "(line, priority DESC, turn) WHERE (line ~~ '% %')",
    "pgjobs_job_line": "(line, queue_name, priority DESC, turn)"
    " WHERE (line IS NOT NULL)",
    "pgjobs_job_lock": "(((keys ->> 'lock'))) WHERE (((keys ->> 'lock') IS NOT NULL)"
    " AND status IN ('READY', 'RUNNING'))",
    "pgjobs_job_lock_order": "(((keys ->> 'lock')), id)"
    " WHERE (((keys ->> 'lock') IS NOT NULL)"
    " AND (status = ANY (ARRAY['WAITING', 'SCHEDULED']))"
    " AND ((keys ->> 'is_ordered') IS DISTINCT FROM 'false'))",
    "pgjobs_job_limit": "(((keys ->> 'limit_key')))"
    " WHERE (((keys ->> 'limit_key') IS NOT NULL) AND status IN ('READY', 'RUNNING'))",
    "pgjobs_job_correlation": "(((meta -> 'correlation_id')))"
    " WHERE ((meta -> 'correlation_id') IS NOT NULL)",
    "pgjobs_job_first": "(((keys -> 'first_id')), id) WHERE (keys ? 'first_id')",
    "pgjobs_job_unique": "(unique_key, unique_for) WHERE ((unique_key IS NOT NULL) AND"
    " pgjobs_holds_key(unique_for, unique_until, status, attempts, finished_at))",
    "pgjobs_job_success": "(finished_at) WHERE (finished_at IS NOT NULL"
    " AND (keep = 'failed') AND (status = 'SUCCESSFUL'))",
    "pgjobs_job_chunk": "(task, queue_name, pgjobs_chunk_key(keys, kwargs, chunk, life,"
    " attempts, status, run_after, enqueued_at), priority DESC, turn)"
    " WHERE ((keys ? 'chunk_by') AND (status = ANY (ARRAY['READY', 'SCHEDULED'])))",
    "pgjobs_job_finished": "(status, finished_at) WHERE finished_at IS NOT NULL",
    "pgjobs_job_ends": "(((keys -> 'ends_at'))) WHERE ((keys ? 'deadline') AND"
    " (finished_at IS NULL) AND ((keys ? 'ends_at') OR ((status <> 'SCHEDULED') AND"
    " (COALESCE(waiting_for, '') <> ALL (ARRAY['predecessor', 'dependency'])))))",
    "pgjobs_job_takes": "(md5((keys ->> 'waits_for')), enqueued_at)"
    " WHERE ((keys ? 'waits_for') AND (finished_at IS NULL) AND (COALESCE(waiting_for,"
    " '') <> ALL (ARRAY['answer', 'event', 'jobs'])))",
    "pgjobs_job_error": "(error_group, finished_at)"
    " WHERE ((error_group IS NOT NULL) AND (status = 'FAILED'))",
}
OBJECTS = """
SELECT 'relation', relname FROM pg_class WHERE relname LIKE 'pgjobs%'
UNION SELECT 'type', typname FROM pg_type WHERE typname LIKE 'pgjobs%'
UNION SELECT 'function', proname FROM pg_proc WHERE proname LIKE 'pgjobs%'
UNION SELECT 'trigger', tgname FROM pg_trigger WHERE tgname LIKE 'pgjobs%'
UNION SELECT 'constraint', conname FROM pg_constraint WHERE conname LIKE 'pgjobs%'
UNION SELECT 'options', relname || reloptions::text FROM pg_class
    WHERE relname LIKE 'pgjobs%' AND reloptions IS NOT NULL
"""


def test_models_and_migrations_agree():
    call_command("makemigrations", "pgjobs", check=True, dry_run=True, verbosity=0)


def test_migrations_can_be_taken_back_and_made_again():
    before = set(execute(OBJECTS))
    assert before
    # In one transaction, so that whatever happens the other tests have their tables.
    with transaction.atomic():
        migrate("zero")
        assert set(execute(OBJECTS)) == set()
        migrate()
        assert set(execute(OBJECTS)) == before
        transaction.set_rollback(True)


def test_only_the_tables_are_left_without_the_functions():
    functions = "SELECT proname FROM pg_proc WHERE proname LIKE 'pgjobs%' ORDER BY 1"
    triggers = "SELECT tgname FROM pg_trigger WHERE tgname LIKE 'pgjobs%'"
    with transaction.atomic():
        migrate("0001")
        # The unique index and the constraint of the table are made of these.
        assert execute(functions) == [("pgjobs_holds_key",), ("pgjobs_is_job",)]
        assert execute(triggers) == []
        transaction.set_rollback(True)


@pytest.mark.django_db(transaction=True, available_apps=["pgjobs", "tests"])
def test_jobs_stay_as_they_are_while_the_functions_are_installed_again():
    locked = noop.using(lock="door").bind()
    jobs = enqueue_many([locked, locked, noop.bind(), noop.using(unique=True).bind()])
    before = list(Job.objects.order_by("pk").values())
    with transaction.atomic():
        migrate("0001")
        migrate()
        assert list(Job.objects.order_by("pk").values()) == before
        later = execute("INSERT INTO pgjobs_job (task) VALUES ('later') RETURNING id")
        claimed = [job.id for job in Hand().claim(10)]
        assert claimed == [jobs[0].pk, jobs[2].pk, jobs[3].pk, later[0][0]]
        transaction.set_rollback(True)


def test_indexes_can_be_made_before_the_migration_as_the_page_says():
    page = (ROOT / "docs/guides/upgrading.md").read_text()
    (made_before,) = re.findall(r"```sql\n(CREATE INDEX.*?)```", page, re.S)
    numbers = "SELECT relname, oid FROM pg_class WHERE relname ~ '^pgjobs_job_'"
    as_migrated = definitions("pgjobs_job")
    with transaction.atomic():
        migrate("0003")
        old = definitions("pgjobs_job")
        execute(made_before.replace("CONCURRENTLY ", ""))
        made = dict(execute(numbers))
        # This one calls a function that the migration brings.
        assert not CALLING & definitions("pgjobs_job").keys()
        before = {*as_migrated.items()} - {*definitions("pgjobs_job").items()}
        assert {name for name, _ in before} == CALLING
        migrate()
        assert definitions("pgjobs_job") == as_migrated != old
        kept = {*dict(execute(numbers)).items()} - {*made.items()}
        assert {name for name, _ in kept} == CALLING
        migrate("0003")
        assert definitions("pgjobs_job") == old
        transaction.set_rollback(True)


def test_database_of_another_vendor_gets_plain_tables():
    """Projects that have one beside their PostgreSQL migrate it like any other app."""
    other = ConnectionHandler(
        {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
    )["default"]
    executor = MigrationExecutor(other)
    executor.migrate(executor.loader.graph.leaf_nodes("pgjobs"))
    assert "pgjobs_job" in other.introspection.table_names()
    executor.loader.build_graph()
    executor.migrate([("pgjobs", None)])
    assert "pgjobs_job" not in other.introspection.table_names()


def migrate(*target: str) -> None:
    call_command("migrate", "pgjobs", *target, verbosity=0, stdout=StringIO())


def definitions(table: str) -> dict[str, str]:
    """Return {index: its columns and condition, without PostgreSQL's decoration}."""
    rows = execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = %(table)s",
        {"table": table},
    )
    return {name: plain(definition) for name, definition in rows}


def plain(definition: str) -> str:
    text = definition.partition(" USING btree ")[2].replace("::text", "")
    for decorated, bare in (
        ("(status = 'READY')", "status = 'READY'"),
        ("(status ~~ 'READY%')", "status ~~ 'READY%'"),
        ("(status = 'SCHEDULED')", "status = 'SCHEDULED'"),
        ("(status = 'RUNNING')", "status = 'RUNNING'"),
        (
            "(status = ANY (ARRAY['READY', 'RUNNING']))",
            "status IN ('READY', 'RUNNING')",
        ),
        ("(process_units IS NOT NULL)", "process_units IS NOT NULL"),
        ("(finished_at IS NOT NULL)", "finished_at IS NOT NULL"),
    ):
        text = text.replace(decorated, bare)
    return text


def test_job_table_has_exactly_the_intended_indexes():
    """Each index costs every job. One that a claim needs must not be missing."""
    assert definitions("pgjobs_job") == INDEXES


def test_columns_of_jobs_stand_in_the_order_of_the_fields():
    """The model explains this order. No migration would notice another one."""
    names = """
        SELECT attname FROM pg_attribute
        WHERE attrelid = 'pgjobs_job'::regclass AND attnum > 0 AND NOT attisdropped
        ORDER BY attnum
    """
    fields = [(field.column,) for field in Job._meta.concrete_fields]
    assert execute(names) == fields


def test_lines_are_sorted_by_their_bytes():
    """So the lines of one kind stand together, whatever the collation is."""
    collation = """
        SELECT collname FROM pg_attribute JOIN pg_collation AS c ON c.oid = attcollation
        WHERE attrelid = 'pgjobs_job'::regclass AND attname = 'line'
    """
    assert execute(collation) == [("C",)]


def test_no_table_has_an_index_of_another_kind():
    kinds = execute(
        "SELECT DISTINCT amname FROM pg_class JOIN pg_am ON pg_am.oid = relam"
        " WHERE relname LIKE 'pgjobs%%' AND relkind = 'i'",
        {},
    )
    assert kinds == [("btree",)]


def test_hot_tables_are_vacuumed_in_time():
    options = dict(
        execute(
            "SELECT relname, reloptions::text FROM pg_class"
            " WHERE relname IN ('pgjobs_job', 'pgjobs_worker', 'pgjobs_progress')"
        )
    )
    assert "autovacuum_vacuum_scale_factor=0" in options["pgjobs_job"]
    assert "vacuum_truncate=off" in options["pgjobs_job"]
    assert "fillfactor=50" in options["pgjobs_worker"]
    assert "fillfactor=50" in options["pgjobs_progress"]


# What claims, admissions and ends of jobs read and write.
TABLES_OF_WORKERS = [
    *("job", "worker", "queue", "attempt", "progress", "note", "rate", "batch"),
    *("predecessor", "prerequisite", "event", "delivery", "schedule"),
]


@pytest.mark.parametrize("table", TABLES_OF_WORKERS)
def test_vacuum_locks_no_worker_out(table):
    """To give the end of a table back it would take a lock that excludes everybody."""
    query = "SELECT reloptions::text FROM pg_class WHERE relname = %(name)s"
    ((options,),) = execute(query, {"name": f"pgjobs_{table}"})
    assert "vacuum_truncate=off" in (options or "")


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (
            "SELECT id FROM pgjobs_job WHERE status = 'READY' AND queue_name = 'q'"
            " AND coalesce(process_units, 0) = 0 ORDER BY priority DESC, turn LIMIT 10",
            "pgjobs_job_in_queue",
        ),
        (
            "SELECT id FROM pgjobs_job WHERE status = 'READY' AND queue_name = 'q'"
            " AND coalesce(process_units, 0) = 5 ORDER BY priority DESC, turn LIMIT 10",
            "pgjobs_job_in_queue",
        ),
        (
            "SELECT id FROM pgjobs_job WHERE status = 'SCHEDULED'"
            " AND run_after <= clock_timestamp() ORDER BY run_after, id LIMIT 10",
            "pgjobs_job_scheduled",
        ),
        (
            "SELECT id FROM pgjobs_job WHERE status = 'FAILED'"
            " AND finished_at IS NOT NULL ORDER BY finished_at LIMIT 10",
            "pgjobs_job_finished",
        ),
        (
            "SELECT id FROM pgjobs_job WHERE status = 'RUNNING' AND worker_id = 5",
            "pgjobs_job_running",
        ),
    ],
)
def test_index_gives_the_rows_in_order_without_a_sort(query, index):
    with connection.cursor() as cursor:
        for kind in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET LOCAL enable_{kind} = off")
        cursor.execute(f"EXPLAIN {query}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert f"using {index} " in plan
    assert "Sort" not in plan
