"""The command: what it refuses, and how it says so."""

import threading
from datetime import timedelta
from io import StringIO

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connections

from pgjobs import drain, enqueue
from pgjobs.management.runjobs import Command
from pgjobs.models import Job, Worker
from pgjobs.worker import WorkerOptions
from tests import tasks
from tests.processes import PATIENCE, database_url, shared_queue

pytestmark = shared_queue


@pytest.mark.parametrize(
    ("option", "values"),
    [
        ("--concurrency", ["0", "-1", "abc", "1.5", "", "٣", "9" * 5_000, "99999999"]),
        ("--threads", ["0", "1e3"]),
        ("--prefetch", ["-1", "many", "1000001"]),
        ("--poll", ["0", "-1", "nan", "inf", "1e300", "soon"]),
        ("--grace", ["-1", "nan", "-inf", "10x"]),
        ("--max-jobs", ["0", "-5", "x"]),
        ("--max-memory", ["0", "300", "-1MB", "0MB", "MB", "1e3MB", "x", "9" * 99]),
        ("--processes", ["0", "-1", "many"]),
        ("--max-time", ["0", "-1", "nan"]),
        ("--queues", ["", ",", "a,,b", "a,", "x" * 201, "a\nb"]),
        ("--exclude", ["", "a,,b"]),
    ],
)
def test_wrong_values_are_usage_errors_that_name_the_option(capsys, option, values):
    check_that_they_are_refused(capsys, option, values)


def check_that_they_are_refused(capsys, option: str, values: list[str]) -> None:
    for value in values:
        with pytest.raises(SystemExit) as ended:
            Command().run_from_argv(["manage.py", "runjobs", f"{option}={value}"])
        assert ended.value.code == 2, value
        assert option in capsys.readouterr().err, value
        with pytest.raises(CommandError, match=option):
            call_command("runjobs", f"{option}={value}")
    assert not Worker.objects.exists()


def test_queues_cannot_be_chosen_and_excluded_at_once(capsys):
    with pytest.raises(SystemExit) as ended:
        Command().run_from_argv(["manage.py", "runjobs", "--queues=a", "--exclude=b"])
    assert ended.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_unknown_queue_is_a_warning_that_lists_the_known_ones():
    errors = StringIO()
    arguments = ["--drain", "--queues", "defualt,default"]
    call_command("runjobs", *arguments, stdout=StringIO(), stderr=errors)
    assert "No task is declared for queue 'defualt'" in errors.getvalue()
    assert "declared queues: " in errors.getvalue()
    assert "'default'" not in errors.getvalue()


def test_queue_that_has_unfinished_jobs_is_known():
    tasks.noop.using(queue_name="later", run_after=timedelta(days=1)).enqueue()
    errors = StringIO()
    arguments = ["--drain", "--queues", "later"]
    call_command("runjobs", *arguments, stdout=StringIO(), stderr=errors)
    assert errors.getvalue() == ""


def test_queue_may_be_named_twice():
    job = enqueue(tasks.noop)
    call_command("runjobs", "--drain", "--queues", "default,default", verbosity=0)
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_unknown_database_is_an_error_that_lists_the_known_ones():
    with pytest.raises(CommandError, match="no database 'other'; DATABASES has") as it:
        call_command("runjobs", "--database", "other")
    assert it.value.returncode == 1


def failed_start(start_worker, **environment: str) -> str:
    """Start a worker that cannot start; return what it printed."""
    worker = start_worker(registered=False, **environment)
    assert worker.wait() == 1
    return worker.printed


def test_missing_tables_are_an_error_that_names_the_cure(start_worker):
    template = database_url().removesuffix("/postgres") + "/template1"
    printed = failed_start(
        start_worker, DATABASE_URL=template, PGJOBS_IN_TEST_PROCESS=""
    )
    assert "run 'manage.py migrate pgjobs --database default' first" in printed
    assert "Traceback" not in printed


def test_server_that_is_not_there_is_an_error_without_the_password(start_worker):
    url = "postgresql://operator:secret-word@127.0.0.1:1/queue"
    printed = failed_start(start_worker, DATABASE_URL=url)
    assert "The database 'default' cannot be reached" in printed
    assert "secret-word" not in printed
    assert "Traceback" not in printed


def test_garbage_collections_leave_out_what_a_worker_has_imported(start_worker):
    job = enqueue(tasks.number_frozen)
    start_worker("--drain", registered=False).wait()
    job.refresh_from_db()
    assert job.return_value > 10_000


def test_worker_runs_in_a_thread_where_signals_cannot_be_handled():
    job = enqueue(tasks.noop)
    thread = threading.Thread(target=drain_by_command)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def drain_by_command():
    call_command("runjobs", "--drain", stdout=StringIO())
    connections.close_all()


def test_option_that_asks_for_more_slots_than_the_pool_has_connections_is_warned_of(
    monkeypatch,
):
    options = connections["default"].settings_dict["OPTIONS"]
    monkeypatch.setitem(options, "pool", {"max_size": 5})
    assert pool_warning(slots=5) == ""
    assert "has 5 connections for 6 slots" in pool_warning(slots=6)
    monkeypatch.setitem(options, "pool", {"max_size": 3})
    assert pool_warning(slots=6) == ""  # the system check has said it
    monkeypatch.setitem(options, "pool", False)
    assert pool_warning(slots=6) == ""


def pool_warning(slots: int) -> str:
    errors = StringIO()
    Command(stderr=errors).warn_of_small_pool(WorkerOptions(slots=slots))
    return errors.getvalue()


@pytest.mark.parametrize("name", ["a\0b", "\udcff", "x\ud800"])
def test_name_that_postgresql_cannot_store_is_a_usage_error(name):
    with pytest.raises(CommandError, match="--name: must be text that PostgreSQL can"):
        call_command("runjobs", "--drain", "--name", name)


def test_name_may_be_anything_that_is_text():
    names = ["", " ", "x" * 1_000, "☃" * 100, "'; DROP TABLE pgjobs_job; --", "%s"]
    for name in names:
        call_command("runjobs", "--drain", "--name", name, verbosity=0)
    assert Job.objects.count() == 0


@pytest.mark.parametrize("mode", ["inline", "manual"])
def test_no_worker_starts_in_a_mode_of_tests(settings, mode):
    settings.PGJOBS = {"MODE": mode}
    says = f"PGJOBS\\['MODE'\\] is '{mode}', in which no worker may run"
    with pytest.raises(CommandError, match=says) as refused:
        call_command("runjobs", "--drain")
    assert refused.value.returncode == 1
    with pytest.raises(ImproperlyConfigured, match=says):
        drain()
