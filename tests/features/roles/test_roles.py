"""Each role does its work, and nothing of the others'; tests connect as the role."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from io import StringIO

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, connections

from pgjobs import chain, enqueue, enqueue_many, publish
from pgjobs.features.moving.id_blocks import use_of_block
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.features.roles import command as roles
from pgjobs.features.roles.views import REPORTS
from pgjobs.models import Attempt, Job, Queue, Schedule
from pgjobs.reports.reading import VIEW
from tests import harness
from tests.actors import Hand, admit, execute, session
from tests.database.test_lost_numbers import forget_timeline, numbers, timeline
from tests.features.overrides.test_pauses import look
from tests.features.roles.test_sql_roles import GRANTS
from tests.processes import shared_queue, wait_for
from tests.settings import OWNER, TEST_DATABASE
from tests.support import dependent_tasks
from tests.tasks import add, fail_with, noop

pytestmark = shared_queue

PASSWORD = "secret"
MODULES = {"TASK_MODULES": ["tests.support.dependent_tasks", "tests.support.handled"]}


def role_of(kind: str) -> str:
    """Return a name; roles are the server's, and runs side by side must not meet."""
    return f"{kind}_{TEST_DATABASE}"


@pytest.fixture(autouse=True)
def all_roles(transactional_db) -> Iterator[None]:
    """Make a role of each kind, with what the command prints for it."""
    with ExitStack() as made:
        made.enter_context(only_the_owner_creates())
        for kind in roles.KINDS:
            made.enter_context(harness.role(kind, f"LOGIN PASSWORD '{PASSWORD}'"))
            execute(printed(f"{kind}={role_of(kind)}"))
        yield
        execute("".join(f"DROP VIEW {VIEW}{each.name};" for each in REPORTS))


@contextmanager
def only_the_owner_creates() -> Iterator[None]:
    """Let only the owner create objects in `public`.

    Up to PostgreSQL 14 everybody may. The documentation, and a system check, ask for
    this REVOKE.
    """
    everybody_may = "SELECT has_schema_privilege('public', 'public', 'CREATE')"
    ((was_open,),) = harness.execute(everybody_may)
    harness.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    if was_open:
        harness.execute(f"GRANT CREATE ON SCHEMA public TO {OWNER}")
    try:
        yield
    finally:
        if was_open:
            harness.execute(f"REVOKE CREATE ON SCHEMA public FROM {OWNER}")
            harness.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")


def printed(*given: str) -> str:
    output = StringIO()
    call_command("pgjobsroles", *given, stdout=output)
    return output.getvalue()


@contextmanager
def connected_as(kind: str) -> Iterator[None]:
    """Let Django's connection be one of the role."""
    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(USER=role_of(kind), PASSWORD=PASSWORD)
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)


# Their work


def test_web_enqueues_whatever_a_task_may_ask_for():
    with connected_as("web"):
        enqueue(add, 1)
        enqueue_many([noop.bind(), noop.using(lock="door").bind()])
        for conflict in ("skip", "replace"):
            single = noop.using(unique_key=conflict, on_conflict=conflict)
            single.enqueue()
            single.enqueue()
        chain(add.bind(1), add.bind(2)).enqueue()
        dependent_tasks.send_client.enqueue("path", 1)
        publish("order.refunded", {"path": "path"})
    assert Job.objects.count() >= 8


def test_web_acts_on_jobs():
    with connected_as("web"):
        first, _ = chain(add.bind(1), add.bind(2)).enqueue()
        assert first.cancel()
        assert first.retry()
        assert first.fail("By hand.")
        assert first.retry()
        assert first.succeed(3)
        later = noop.using(run_after=timedelta(hours=1)).enqueue()
        assert later.run_now()
        later.delete()
        Job.objects.filter(pk=first.pk).delete()
    assert Job.objects.count() == 1


def test_web_deletes_jobs_with_all_that_refers_to_them():
    job = enqueue(fail_with, "no")
    published = publish("order.refunded", {"path": "path"})
    Attempt.objects.create(
        job=job,
        life=1,
        number=1,
        worker_name="a",
        outcome="FAILED",
        finished_at=job.enqueued_at,
    )
    with connected_as("web"):
        Job.objects.all().delete()
    assert not Job.objects.exists()
    assert published


def test_web_pauses_queues_and_changes_schedules():
    with connected_as("web"):
        call_command("pausejobs", "mail", verbosity=0)
        call_command("resumejobs", "mail", verbosity=0)
        schedule = Schedule.objects.create(
            name="tick", task="tests.noop", every=timedelta(hours=1)
        )
        schedule.paused = True
        schedule.save()
        schedule.delete()
    assert Queue.objects.get().paused_at is None


def test_web_changes_tasks_and_keys_at_run_time_and_workers_follow():
    enqueue(noop)
    paused, rate = Wish(paused=True), Wish(rate="5/hour")
    with connected_as("web"):
        assert set_override("default", "task", "tests.noop", paused, "ada", "page")
        assert set_override("default", "rate", "mail", rate, "ada", "page")
        enqueue(noop)
        noop.using(rate="9/hour", rate_key="mail").enqueue()
    with connected_as("worker"):
        look()
        assert not Job.objects.ready().exists()
    with connected_as("web"):
        assert set_override("default", "task", "tests.noop", Wish(), "ada", "page")
        enqueue(noop)
    with connected_as("worker"):
        look()
        Hand()
        admit()
    assert Job.objects.ready().count() == 4


def test_worker_runs_everything(start_worker, tmp_path):
    own = {"USER": role_of("worker"), "PASSWORD": PASSWORD}
    path = str(tmp_path / "notes")
    enqueue_many(
        [noop.using(lock=f"door {number % 3}").bind() for number in range(6)]
        + [noop.using(limit_key="mail", max_running=2).bind() for _ in range(4)]
        + [noop.using(rate="100/second").bind() for _ in range(3)]
        + [noop.using(process_units=1, queue_name="new").bind() for _ in range(2)]
        + [noop.using(expires=timedelta(seconds=60)).bind()]
    )
    chain(add.bind(1), add.bind(2)).enqueue()
    dependent_tasks.send_client.enqueue(path, 1)
    publish("order.refunded", {"path": path})
    enqueue(noop)
    with session() as owner:
        owner.execute(
            "INSERT INTO pgjobs_schedule (name, task, every, next_run_at)"
            " VALUES ('tick', 'tests.noop', '1 hour', now())"
        )
    worker = start_worker("--units", "8", settings=MODULES, **connecting(own))
    failing = enqueue(fail_with, "no")
    wait_for(lambda: Job.objects.filter(task="tests.noop").count() > 17, "it ticks")
    wait_for(lambda: not Job.objects.filter(finished_at=None).exists(), "all end")
    failing.refresh_from_db()
    assert failing.status == "FAILED"
    assert "denied" not in worker.printed
    with connected_as("worker"):
        call_command("prunejobs", "--older", "0s", verbosity=0)
    assert worker.stop() == 0
    assert "denied" not in worker.printed


def connecting(changes: dict) -> dict[str, str]:
    return {"PGJOBS_TEST_CONNECTING": json.dumps(changes)}


def test_producer_enqueues_with_the_grants_that_the_documentation_shows():
    def plain(text: str) -> str:
        return " ".join(re.sub(r"--.*", "", text).split())

    assert plain(roles.grants("producer", "producer", "public")) == plain(
        GRANTS["producer"]
    )
    with session(user=role_of("producer"), password=PASSWORD) as other:
        other.execute("INSERT INTO pgjobs_job (task) VALUES ('tests.noop')")


def test_dashboard_sees_how_jobs_are():
    enqueue_many([noop.using(lock="door").bind() for _ in range(3)])
    admit()
    with connected_as("dashboard"):
        output = StringIO()
        call_command("jobstatus", json=True, stdout=output)
        assert '"waiting": 3' in output.getvalue()
        assert "door" not in output.getvalue()  # keys are made of arguments


def test_dashboard_sees_how_schedules_are():
    with session(user=role_of("dashboard"), password=PASSWORD) as other:
        other.execute("SELECT name, next_run_at, run_count, error FROM pgjobs_schedule")
        other.execute("SELECT task, event, inactive_at FROM pgjobs_subscription")
    with connected_as("dashboard"):
        call_command("jobstatus", "--check", stdout=StringIO())


def test_dashboard_sees_how_much_of_its_block_of_ids_a_database_has_used():
    enqueue(noop)
    used = use_of_block("default")
    assert used.share > 0
    with connected_as("dashboard"):
        assert use_of_block("default") == used


# Nothing of the others'

BEYOND = {
    "web": [
        "INSERT INTO pgjobs_worker (name, host, pid) VALUES ('a', 'b', 1)",
        "UPDATE pgjobs_worker SET heartbeat_at = now()",
        "DELETE FROM pgjobs_worker",
        "UPDATE pgjobs_taskdefinition SET options = '{}'",
        "INSERT INTO pgjobs_subscription (task, event) VALUES ('a', 'b')",
        "INSERT INTO pgjobs_tick (time) VALUES (now())",
        "UPDATE pgjobs_attempt SET message = ''",
        "UPDATE pgjobs_rate SET opens_at = NULL",
        "DELETE FROM pgjobs_event",
        "DELETE FROM pgjobs_figure",
        "DELETE FROM pgjobs_codeversion",
        "UPDATE pgjobs_errorgroup SET task = ''",
        "DELETE FROM pgjobs_errorgroup",
        "SELECT * FROM pgjobs_move",
        "SELECT * FROM pgjobs_parcel",
    ],
    "worker": [
        "UPDATE pgjobs_queue SET paused_at = NULL",
        "DELETE FROM pgjobs_queue",
        "INSERT INTO pgjobs_queue (name, paused_at) VALUES ('a', now())",
        "DELETE FROM pgjobs_taskdefinition",
        "SELECT * FROM pgjobs_move",
        "SELECT * FROM pgjobs_parcel",
    ],
    "producer": [
        "UPDATE pgjobs_job SET priority = 5",
        "DELETE FROM pgjobs_job",
        "SELECT * FROM pgjobs_worker",
        "SELECT * FROM pgjobs_attempt",
        "SELECT * FROM pgjobs_event",
        "SELECT * FROM pgjobs_auditentry",
        "SELECT * FROM pgjobs_errorgroup",
        "SELECT * FROM pgjobs_figure",
        "SELECT * FROM pgjobs_parcel",
        "UPDATE pgjobs_queue SET paused_at = NULL",
    ],
    "dashboard": [
        "INSERT INTO pgjobs_job (task) VALUES ('tests.noop')",
        "UPDATE pgjobs_job SET priority = 5",
        "SELECT pgjobs_cancel(1)",
        "SELECT * FROM pgjobs_enqueue('tests.add', '{\"a\": 1}')",
        "SELECT kwargs FROM pgjobs_job",
        "SELECT return_value FROM pgjobs_job",
        "SELECT traceback FROM pgjobs_attempt",
        "SELECT payload FROM pgjobs_event",
        "SELECT args FROM pgjobs_job",
        "SELECT meta FROM pgjobs_job",
        "SELECT unique_key FROM pgjobs_job",
        "SELECT keys FROM pgjobs_job",
        "SELECT line FROM pgjobs_job",
        "SELECT key FROM pgjobs_rate",
        "SELECT args FROM pgjobs_schedule",
        "SELECT kwargs FROM pgjobs_schedule",
        "SELECT declared FROM pgjobs_schedule",
        "SELECT keys FROM pgjobs_note",
        "SELECT key FROM pgjobs_prerequisite",
        "SELECT keys FROM pgjobs_subscription",
        "SELECT * FROM pgjobs_progress",
        "SELECT * FROM pgjobs_step",
        "SELECT * FROM pgjobs_auditentry",
        "SELECT * FROM pgjobs_errorgroup",
        "SELECT * FROM pgjobs_parcel",
        "UPDATE pgjobs_queue SET paused_at = NULL",
    ],
}
OF_OWNERS = [
    "TRUNCATE pgjobs_job",
    "ALTER TABLE pgjobs_job ADD a integer",
    "ALTER TABLE pgjobs_job DISABLE TRIGGER ALL",
    "DROP TABLE pgjobs_job",
    "DROP FUNCTION pgjobs_provide",
    "CREATE FUNCTION pgjobs_mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
]


@pytest.mark.parametrize(
    ("kind", "statement"),
    [
        (kind, statement)
        for kind in roles.KINDS
        for statement in [*BEYOND[kind], *OF_OWNERS]
    ],
)
def test_role_may_do_nothing_of_the_others(kind, statement):
    with (
        session(user=role_of(kind), password=PASSWORD) as other,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        other.execute(statement)


# The command


@pytest.mark.parametrize("given", ["web", "owner=me", "web="])
def test_unknown_kinds_are_refused(given):
    with pytest.raises(CommandError, match="KIND=ROLE, with a kind of web, worker"):
        printed(given)


def test_names_of_roles_are_quoted():
    assert 'TO "Shop; x"' in printed("dashboard=Shop; x")


def test_every_table_is_thought_of():
    """A new one must be named, if only to be kept from a role."""
    tables = set(connections["default"].introspection.table_names())
    ours = {name for name in tables if name.startswith("pgjobs_")}
    named = "".join(path.read_text() for path in roles.FILES.glob("*.sql"))
    assert {name for name in ours if not re.search(rf"\b{name}\b", named)} == set()


EXECUTABLE = """
SELECT proname FROM pg_proc
WHERE proname LIKE 'pgjobs%%' AND prorettype <> 'trigger'::regtype
    AND has_function_privilege(%s, oid, 'EXECUTE')
"""


def test_every_function_is_given_to_the_roles_that_work():
    """Each runs with the rights of its caller. To watch, none of them is needed."""
    may = {
        kind: {name for (name,) in execute(EXECUTABLE, [role_of(kind)])}
        for kind in roles.KINDS
    }
    owner = connection.settings_dict["USER"]
    everything = {name for (name,) in execute(EXECUTABLE, [owner])}
    assert may["web"] == may["worker"] == may["producer"] == everything
    for_all = {name for (name,) in execute(EXECUTABLE, ["public"])}
    assert may["dashboard"] == for_all


# What a failover needs


def test_role_of_a_worker_may_move_the_sequences_on(all_roles):
    forget_timeline()
    before = numbers()
    with connected_as("worker"):
        timeline()
    assert numbers() > before
