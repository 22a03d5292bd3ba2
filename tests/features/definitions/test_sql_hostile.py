"""Hostile input by SQL: refused with a clear error, or stored without harm."""

import pytest

from pgjobs.models import Job, TaskDefinition
from tests.actors import Hand, admit, session
from tests.processes import drain, shared_queue, wait_for
from tests.settings import SCHEMA
from tests.sql import enqueued, psql, refused
from tests.support.declared import store_definitions
from tests.tasks import add, echo

pytestmark = pytest.mark.django_db

EVIL = """'"; DROP TABLE pgjobs_job; --"""
ARGUMENTS = """'{"client_id": 1, "month": "x"}'"""


@pytest.fixture(autouse=True)
def synced(db):
    store_definitions("default")


# NULL, and what is no object


@pytest.mark.parametrize(
    ("call", "column"),
    [
        ("SELECT pgjobs_enqueue(NULL, '{}')", "task"),
        ("SELECT pgjobs_enqueue('tests.noop', NULL)", "arguments"),
        ("CALL pgjobs_insert_job(NULL, 'noop', 1, '{}')", "task"),
        ("CALL pgjobs_insert_job('tests', NULL, 1, '{}')", "task"),
        ("CALL pgjobs_insert_job('tests', 'noop', 1, NULL)", "arguments"),
    ],
)
def test_null_is_refused(call, column):
    with refused("22004", "NULL", column=column):
        psql(call)


def test_null_options_are_those_of_the_task():
    (job,) = enqueued(
        f"{ARGUMENTS}, priority => NULL, queue_name => NULL, run_after => NULL,"
        " unique_key => NULL, lock => NULL"
    )
    assert (job.priority, job.queue_name, job.run_after) == (0, "default", None)
    assert (job.unique_key, job.keys) == (None, None)
    psql(f"CALL pgjobs_insert_job('reports', 'generate_monthly', NULL, {ARGUMENTS})")
    assert Job.objects.latest("pk").priority == 0


@pytest.mark.parametrize("arguments", ["[]", '"s"', "null", "1", "true"])
def test_arguments_must_be_an_object(arguments):
    with refused("22023", "must be a JSON object", column="arguments"):
        psql(f"SELECT pgjobs_enqueue('tests.noop', '{arguments}')")
    with refused("22023", "must be a JSON object", column="arguments"):
        psql(f"CALL pgjobs_insert_job('tests', 'noop', 1, '{arguments}')")
    with refused("23514", "kwargs must be an object"):
        psql(
            "INSERT INTO pgjobs_job (task, kwargs)"
            f" VALUES ('tests.noop', '{arguments}')"
        )


# Times


@pytest.mark.parametrize(
    "time", ["infinity", "-infinity", "0044-03-15 BC", "10000-01-01", "1969-12-31"]
)
def test_times_that_python_could_not_read_are_refused(time):
    with refused("22023", "years 1970 to 9998", column="run_after"):
        enqueued(f"{ARGUMENTS}, run_after => '{time}'")
    with refused("23514", "from 1970 to 9998"):
        psql(
            f"INSERT INTO pgjobs_job (task, run_after) VALUES ('tests.noop', '{time}')"
        )


# JSON that PostgreSQL takes, and Python does not


@pytest.mark.parametrize(
    ("json", "says"),
    [
        ("9" * 5000, "too many digits"),
        ("[" * 3000 + "]" * 3000, "nested more than 100 deep"),
        ('{"a":' * 101 + "1" + "}" * 101, "nested more than 100 deep"),
        ("9" * 400 + ".5", "inf is not JSON"),
    ],
    ids=["5000 digits", "arrays", "objects", "huge"],
)
def test_json_that_python_could_not_read_is_refused(json, says):
    with refused("22023", says, column="value"):
        psql("SELECT pgjobs_enqueue('tests.echo', %s)", [f'{{"value": {json}}}'])
    with refused("22023", says, column="value"):
        psql("CALL pgjobs_insert_job('tests', 'echo', 1, %s)", [f'{{"value": {json}}}'])


@pytest.mark.parametrize(
    "json", ["9" * 5000, "[" * 3000 + "]" * 3000], ids=["5000 digits", "3000 deep"]
)
@shared_queue
def test_unreadable_row_fails_and_the_others_go_on(json):
    with session() as sql:
        sql.execute(
            "INSERT INTO pgjobs_job (task, kwargs) VALUES ('tests.echo', %s)",
            [f'{{"value": {json}}}'],
        )
    job = add.enqueue(1)
    drain()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"
    failed = Job.objects.failed().defer("kwargs").get()
    # Newer Pythons read deeper, but do not store what is so deep.
    assert "cannot be read" in failed.reason or "more than 100 deep" in failed.reason


@pytest.mark.parametrize("text", [r"a\u0000b", r"\ud800", r"\udc00\ud800"])
def test_text_that_postgresql_cannot_store_is_refused(text):
    arguments = f'{{"value": "{text}"}}'
    with refused("22P05" if "0000" in text else "22P02"):
        psql("CALL pgjobs_insert_job('tests', 'echo', 1, %s)", [arguments])


def test_of_a_name_given_twice_the_last_counts():
    (job,) = enqueued("""'{"client_id": 1, "month": "a", "month": "b"}'""")
    assert job.kwargs["month"] == "b"


# A schema and tables that look like ours


def test_look_alikes_earlier_in_the_search_path_are_not_used():
    psql(
        f"""
        CREATE SCHEMA evil;
        CREATE TABLE evil.pgjobs_job (LIKE {SCHEMA}.pgjobs_job INCLUDING ALL);
        CREATE TABLE evil.pgjobs_taskdefinition
            (LIKE {SCHEMA}.pgjobs_taskdefinition INCLUDING ALL);
        CREATE TEMP TABLE pgjobs_job (LIKE {SCHEMA}.pgjobs_job INCLUDING ALL);
        CREATE FUNCTION evil.pgjobs_definition(text)
            RETURNS {SCHEMA}.pgjobs_taskdefinition LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE FUNCTION evil.jsonb_typeof(jsonb) RETURNS text LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE FUNCTION evil.statement_timestamp() RETURNS timestamptz LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE FUNCTION evil.is_equal(text, text) RETURNS boolean LANGUAGE plpgsql
            AS $$ BEGIN RAISE 'evil'; END $$;
        CREATE OPERATOR evil.=
            (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.is_equal)
        """
    )
    psql(f"SET LOCAL search_path = evil, pg_temp, {SCHEMA}, pg_catalog")
    try:
        found = psql(
            f"SELECT id FROM pgjobs_enqueue('reports.generate_monthly', {ARGUMENTS})"
        )
        psql(f"CALL pgjobs_insert_job('reports', 'generate_monthly', 5, {ARGUMENTS})")
        assert psql("SELECT pgjobs_job_status(%s)", found[0]) == [("READY",)]
        assert psql("SELECT pgjobs_cancel(%s)", found[0]) == [(True,)]
        assert psql("SELECT pgjobs_retry(%s)", found[0]) == [(True,)]
        for table in ("evil.pgjobs_job", "pg_temp.pgjobs_job"):
            assert psql(f"SELECT count(*) FROM {table}") == [(0,)]
        assert psql(f"SELECT count(*) FROM {SCHEMA}.pgjobs_job") == [(2,)]
    finally:
        psql("SET LOCAL search_path = DEFAULT")


# Rows by hand


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "'RUNNING'", "lease_token": "10 ^ 18"},
        {"attempts": "-1"},
        {"failures": "1"},
        {"lease_token": "-1"},
        {"status": "'DONE'"},
        {"status": "'SUCCESSFUL'"},
        {"finished_at": "now()"},
        {"status": "'WAITING'"},
        {"status": "'SCHEDULED'"},
        {"timeout": "'NaN'"},
        {"keys": """'{"lock": ""}'"""},
        {"keys": """'{"max_running": 0, "limit_key": "x"}'"""},
        {"unique_key": "'x'"},
    ],
)
def test_row_that_no_transition_makes_is_refused(columns):
    names, values = ", ".join(columns), ", ".join(columns.values())
    with refused("23514"):
        psql(
            f"INSERT INTO pgjobs_job (task, {names}) VALUES ('tests.noop', {values});"
            "SET CONSTRAINTS ALL IMMEDIATE"
        )


def test_finished_job_cannot_be_made_to_run_by_hand():
    job = add.enqueue(1)
    job.cancel()
    with refused("23514", "it has a (finished_at|worker_id) if, and only if"):
        psql("UPDATE pgjobs_job SET status = 'RUNNING'")


# Notifications


@pytest.mark.django_db(transaction=True)
def test_trigger_that_enqueues_for_each_row_notifies_once():
    with session() as worker, session() as sql:
        worker.listen("pgjobs")
        sql.execute("CREATE TABLE sale (id int, total int)")
        try:
            sql.execute(
                """
                CREATE FUNCTION enqueue_sale() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN
                    PERFORM pgjobs_enqueue(
                        'tests.add', jsonb_build_object('a', NEW.total)
                    );
                    RETURN NULL;
                END $$
                """
            )
            sql.execute(
                "CREATE TRIGGER enqueue_sale AFTER UPDATE ON sale"
                " FOR EACH ROW EXECUTE FUNCTION enqueue_sale()"
            )
            sql.execute("INSERT INTO sale SELECT n, n FROM generate_series(1, 500) n")
            sql.execute("UPDATE sale SET total = total + 1")
            assert worker.heard() == [("pgjobs", "default")]
            assert Job.objects.count() == 500
        finally:
            sql.execute("DROP TABLE sale; DROP FUNCTION enqueue_sale")


@pytest.mark.django_db(transaction=True)
def test_longest_names_still_fit_into_a_notification():
    """A payload may have 8,000 bytes, a channel 63."""
    with session() as worker, session() as sql:
        worker.listen("pgjobs", "pgjobs_admission")
        for lock in ("NULL", "repeat('🙂', 500)"):
            sql.execute(
                "SELECT pgjobs_enqueue('tests.noop', '{}',"
                f" queue_name => repeat('🙂', 200), lock => {lock})"
            )
        heard = worker.heard()
        Hand()
        with_lock = Job.objects.exclude(keys__isnull=True)
        admit()
        assert with_lock.get().status == "READY"
    assert heard == [("pgjobs", "🙂" * 200), ("pgjobs_admission", "🙂" * 200)]


# A worker that listens holds the lock by which it wants to be notified.
LISTENS = """
SELECT pid FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE datname = current_database() AND classid = 1885825646
"""
JUNK = ("", EVIL, "lock", "lock ", "batch x", "predecessor ", "odd 5", "🙂", "x" * 7999)


@shared_queue
def test_junk_notifications_of_another_role_do_no_harm(start_worker):
    worker = start_worker("--poll", "600")
    with session() as sql:
        wait_for(lambda: sql.execute(LISTENS), "it listens")
        for channel in ("pgjobs", "pgjobs_admission", "pgjobs_finished"):
            for payload in (*JUNK, "rate \t", f"batch {'9' * 18}", f"limit {EVIL}"):
                sql.execute("SELECT pg_notify(%s, %s)", [channel, payload])
        sql.execute(
            "SELECT pg_notify('pgjobs', n::text) FROM generate_series(1, 2000) n"
        )
    job = echo.enqueue("still here")
    wait_for(lambda: Job.objects.get(pk=job.pk).status == "SUCCESSFUL", "it ran")
    assert "Database fault" not in worker.printed


# Quotes in every text


def test_text_in_any_field_is_but_text():
    (job,) = [
        Job.objects.get(pk=id)
        for (id,) in psql(
            "SELECT id FROM pgjobs_enqueue('tests.anything', %s, queue_name => %s,"
            " unique_key => %s, lock => %s)",
            [f'{{"{quoted(EVIL)}": "{quoted(EVIL)}"}}', f"q{EVIL}", EVIL, EVIL],
        )
    ]
    assert job.kwargs == {EVIL: EVIL}
    assert (job.queue_name, job.unique_key) == (f"q{EVIL}", EVIL)
    assert job.keys["lock"] == EVIL
    with refused("22023", "DROP TABLE"):
        psql("SELECT pgjobs_enqueue(%s, '{}')", [EVIL])
    with refused("22023", "DROP TABLE"):
        psql("CALL pgjobs_insert_job(%s, %s, 1, '{}')", [EVIL, EVIL])
    psql("SELECT pgjobs_cancel(%s, %s)", [job.pk, EVIL])
    job.refresh_from_db()
    assert job.reason == EVIL


def quoted(text: str) -> str:
    return text.replace('"', '\\"')


def test_format_characters_in_a_definition_do_no_harm():
    TaskDefinition.objects.filter(name="tests.noop").update(name="tests.%s%I")
    with refused("22023", "Invalid arguments for tests.%s%I: %: is no parameter"):
        psql("""SELECT pgjobs_enqueue('tests.%s%I', '{"%": 1}')""")
