"""What `django.tasks` promises of running tasks, kept by a worker."""

import logging
import sys
from datetime import timedelta

import pytest
from django.db import connection

from pgjobs.models import Job, Worker
from tests import standard_tasks
from tests.processes import drain, running_worker, wait_for
from tests.standard import TaskResultStatus, signals, task_backends
from tests.tasks import let_go, lines, noop

pytestmark = pytest.mark.django_db(transaction=True)

SUCCESSFUL = TaskResultStatus.SUCCESSFUL
FAILED = TaskResultStatus.FAILED
READY = TaskResultStatus.READY


def run(declared, *args, **kwargs):
    """Enqueue a task and drain the queue; return its result, fresh."""
    result = declared.enqueue(*args, **kwargs)
    drain()
    result.refresh()
    return result


@pytest.fixture
def receiving():
    """Connect receivers to Django's signals for the length of a test."""
    connected = []

    def connect(name, receiver):
        getattr(signals, name).connect(receiver, weak=False)
        connected.append((name, receiver))

    yield connect
    for name, receiver in connected:
        getattr(signals, name).disconnect(receiver)


@pytest.mark.parametrize(
    "declared", [standard_tasks.add, standard_tasks.add_async], ids=["sync", "async"]
)
def test_task_runs_with_its_arguments(declared):
    result = run(declared, 1, b=2)
    assert result.status == SUCCESSFUL
    assert result.is_finished
    assert result.return_value == 3
    assert result.errors == []
    assert result.attempts == len(result.worker_ids) == 1
    assert result.enqueued_at <= result.started_at <= result.last_attempted_at
    assert result.started_at <= result.finished_at


def test_native_jobs_run_beside_it():
    native, result = noop.enqueue(), standard_tasks.noop.enqueue()
    drain()
    native.refresh_from_db()
    result.refresh()
    assert (native.status, result.status) == ("SUCCESSFUL", "SUCCESSFUL")


@pytest.mark.parametrize(
    ("declared", "raised", "message"),
    [
        (standard_tasks.fail, ValueError, "ValueError: no"),
        (standard_tasks.exit_process, SystemExit, "SystemExit: It wants to leave"),
        (standard_tasks.return_what_is_no_json, TypeError, "Unsupported type"),
        (standard_tasks.fail_with_a_cause, ValueError, "This task failed"),
    ],
    ids=["error", "exit", "result", "cause"],
)
def test_task_that_raises_has_failed(declared, raised, message):
    result = run(declared)
    assert result.status == FAILED
    (error,) = result.errors
    assert error.exception_class is raised
    assert message in error.traceback
    assert "pgjobs" not in error.traceback
    assert result.attempts == 1
    assert None not in (result.started_at, result.finished_at)
    with pytest.raises(ValueError, match="Task failed"):
        result.return_value  # noqa: B018


def test_result_is_normalised_as_django_does():
    result = run(standard_tasks.return_what_django_normalises)
    assert result.return_value == {"bytes": "text", "tuple": [1, 2]}


def test_result_may_have_numbers_as_keys():
    result = run(standard_tasks.return_numbers_as_keys)
    assert result.return_value == {"2024": {"1": 2}, "null": 1}


def test_result_that_postgresql_cannot_store_fails_the_task():
    result = run(standard_tasks.return_nan)
    assert result.status == FAILED
    assert "nan is not JSON" in result.errors[0].traceback
    result.errors[0].exception_class  # noqa: B018  (it can be imported)


@pytest.mark.parametrize(
    "declared",
    [standard_tasks.return_what_is_no_json, standard_tasks.return_nan],
    ids=["type", "value"],
)
def test_task_whose_result_cannot_be_stored_is_not_tried_again(declared):
    result = run(declared.using(max_attempts=3))
    assert (result.status, result.attempts) == (FAILED, 1)


def test_wrong_arguments_fail_the_task():
    result = run(standard_tasks.add, 1, 2, 3)
    assert result.status == FAILED
    assert result.errors[0].exception_class is TypeError


def test_context_describes_the_running_task():
    result = run(standard_tasks.tell_context.using(priority=7), word="bye")
    assert result.return_value == {
        "attempt": 1,
        "id": result.id,
        "status": "RUNNING",
        "word": "bye",
        "workers": 1,
        "started": True,
        "path": "tests.standard_tasks.tell_context",
        "args": [],
        "priority": 7,
    }
    assert result.kwargs == {"word": "bye"}


def test_task_waits_through_its_context():
    result = run(standard_tasks.ask)
    assert result.status == READY
    assert Job.objects.get().answer("question", "yes")
    drain()
    result.refresh()
    assert result.return_value == [0, "yes"]


def test_async_task_may_read_its_context():
    assert run(standard_tasks.tell_attempt_async).return_value == 1


def test_task_that_fails_runs_once():
    run(standard_tasks.fail)
    assert Job.objects.get().attempts == 1


def test_attempts_are_counted_and_their_errors_kept():
    result = run(standard_tasks.fail_twice)
    assert result.return_value == 3
    assert result.attempts == len(result.worker_ids) == 3
    assert [each.exception_class for each in result.errors] == [ValueError] * 2
    assert "attempt 2" in result.errors[1].traceback
    assert result.started_at < result.last_attempted_at


def test_task_that_will_be_tried_again_is_ready():
    result = run(standard_tasks.fail_and_wait)
    assert result.status == READY
    assert not result.is_finished
    assert len(result.errors) == result.attempts == 1


def test_running_task_shows_its_worker(tmp_path):
    path = str(tmp_path / "held")
    result = standard_tasks.hold.enqueue(path)
    with running_worker() as loop:
        wait_for(lambda: lines(path), "the task runs")
        result.refresh()
        let_go(path)
        assert result.status == TaskResultStatus.RUNNING
        assert result.worker_ids == [loop.options.name]
        assert result.finished_at is None


@pytest.mark.parametrize(
    "declared",
    [
        standard_tasks.noop,
        standard_tasks.noop.using(lock="one at a time"),
        standard_tasks.is_atomic,
    ],
    ids=["plain", "with a lock", "atomic"],
)
def test_worker_of_a_success_is_known_when_the_worker_is_gone(declared):
    result = declared.enqueue()
    with running_worker() as loop:
        wait_for(lambda: result.refresh() or result.is_finished, "the task ends")
    result.refresh()
    assert not Worker.objects.exists()
    assert result.worker_ids == [loop.options.name]


def test_worker_of_each_attempt_is_known():
    result = standard_tasks.fail_twice.enqueue()
    with running_worker() as loop:
        wait_for(lambda: result.refresh() or result.is_finished, "the task ends")
    assert result.worker_ids == [loop.options.name] * 3


def test_worker_that_loses_its_job_to_an_operator_is_known(tmp_path):
    path = str(tmp_path / "held")
    result = standard_tasks.hold.enqueue(path)
    with running_worker() as loop:
        wait_for(lambda: lines(path), "the task runs")
        assert Job.objects.get().succeed()
        let_go(path)
    result.refresh()
    assert (result.status, result.worker_ids) == (SUCCESSFUL, [loop.options.name])


def test_success_by_an_operator_before_any_worker_names_none():
    result = standard_tasks.add.enqueue(1, 2)
    run(standard_tasks.noop)
    Job.objects.filter(pk=result.id).retry()
    Job.objects.filter(pk=result.id).succeed()
    result.refresh()
    assert (result.status, result.worker_ids) == (SUCCESSFUL, [])


def test_control_flow_of_pgjobs_works_in_it():
    cancelled = standard_tasks.cancel_itself.enqueue()
    failed = standard_tasks.fail_for_good.enqueue()
    retried = standard_tasks.ask_for_retry.enqueue()
    snoozed = standard_tasks.snooze_once.enqueue()
    drain()
    for each in (cancelled, failed, retried, snoozed):
        each.refresh()
    assert cancelled.status == failed.status == FAILED
    assert cancelled.errors[0].exception_class.__name__ == "JobCancelled"
    assert failed.errors[0].exception_class.__name__ == "Fail"
    assert retried.return_value == "done"
    assert snoozed.status == SUCCESSFUL
    assert (snoozed.attempts, snoozed.errors) == (2, [])


def test_worker_outlives_what_tasks_do():
    results = [
        standard_tasks.break_transaction.enqueue(),
        standard_tasks.fail.enqueue(),
        standard_tasks.exit_process.enqueue(),
        standard_tasks.noop.enqueue(),
    ]
    drain(slots=1)
    for each in results:
        each.refresh()
    assert [each.status for each in results] == [FAILED, FAILED, FAILED, SUCCESSFUL]


def test_message_with_nul_is_stored():
    result = run(standard_tasks.fail_with_nul)
    assert result.status == FAILED
    assert "\ufffd" in result.errors[0].traceback


def test_task_whose_function_is_gone_fails(monkeypatch, settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    result = standard_tasks.noop.enqueue()
    monkeypatch.delattr(standard_tasks, "noop")
    task_backends["default"].adapters.by_path.clear()
    drain()
    result.refresh()
    assert result.status == FAILED
    assert "No task registered as" in result.errors[0].traceback
    result.errors[0].exception_class  # noqa: B018  (it can be imported)


def test_task_that_leaves_no_module_to_import_stays_alone(settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0}
    jobs = Job.objects.bulk_create(
        [Job(task="default:tests.nowhere.task"), Job(task="gone:tests.tasks.noop")]
    )
    result = standard_tasks.noop.enqueue()
    drain()
    result.refresh()
    assert result.status == SUCCESSFUL
    statuses = Job.objects.filter(pk__in=[each.pk for each in jobs])
    assert set(statuses.values_list("status", flat=True)) == {"FAILED"}


@pytest.mark.parametrize("error", ["SystemExit", "KeyError", "ImportError"])
def test_worker_outlives_a_module_that_cannot_be_imported(error, tmp_path, settings):
    settings.PGJOBS = {"UNKNOWN_TASK_GRACE": 0, "TASK_MODULES": ["broken_module"]}
    (tmp_path / "broken_module.py").write_text(f"raise {error}('no')")
    Job.objects.create(task="default:broken_module.task")
    result = standard_tasks.noop.enqueue()
    sys.path.insert(0, str(tmp_path))
    try:
        drain()
    finally:
        sys.path.remove(str(tmp_path))
    result.refresh()
    assert result.status == SUCCESSFUL
    assert Job.objects.get(status="FAILED").reason.startswith("No task registered")


def test_job_that_sql_inserts_runs():
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pgjobs_job (task, args) "
            "VALUES ('default:tests.standard_tasks.add', '[1, 2]') RETURNING id"
        )
        (id,) = cursor.fetchone()
    drain()
    assert task_backends["default"].get_result(str(id)).return_value == 3


# Signals


def test_signals_announce_each_attempt_and_the_end(heard):
    result = standard_tasks.fail_twice.enqueue()
    drain()
    sender = type(task_backends["default"])
    assert heard == [
        ("task_enqueued", sender, result.id, READY),
        ("task_started", sender, result.id, TaskResultStatus.RUNNING),
        ("task_started", sender, result.id, TaskResultStatus.RUNNING),
        ("task_started", sender, result.id, TaskResultStatus.RUNNING),
        ("task_finished", sender, result.id, SUCCESSFUL),
    ]


def test_async_task_sends_the_same_signals(heard):
    run(standard_tasks.add_async, 1)
    names = [name for name, *_ in heard]
    assert names == ["task_enqueued", "task_started", "task_finished"]


def test_native_jobs_send_no_signals_of_django(heard):
    noop.enqueue()
    drain()
    assert heard == []


def test_receivers_see_the_whole_result(receiving):
    seen = {}

    def started(task_result, **kwargs):
        seen["started"] = task_result.started_at, task_result.attempts

    def finished(task_result, **kwargs):
        seen["finished"] = task_result.return_value, task_result.finished_at

    receiving("task_started", started)
    receiving("task_finished", finished)
    result = run(standard_tasks.add, 1)
    assert seen["started"] == (result.started_at, 1)
    assert seen["finished"] == (2, result.finished_at)


def test_receiver_of_a_failure_can_look_at_the_exception(receiving):
    seen = []
    receiving("task_finished", lambda **kwargs: seen.append(sys.exc_info()[1]))
    run(standard_tasks.fail, "Look at me")
    run(standard_tasks.noop)
    assert [str(each) for each in seen] == ["Look at me", "None"]


def test_failure_is_logged_as_django_logs_it(caplog):
    with caplog.at_level(logging.INFO):
        run(standard_tasks.fail, "Look at me")
    logged = [
        each
        for each in caplog.records
        if each.name in ("django.tasks", "django_tasks") and "FAILED" in each.message
    ]
    assert len(logged) == 1
    assert logged[0].levelno == logging.ERROR
    assert str(logged[0].exc_info[1]) == "Look at me"


@pytest.mark.parametrize("name", ["task_started", "task_finished"])
def test_receiver_that_raises_changes_no_outcome(name, receiving, heard):
    def receive(**kwargs):
        raise ValueError("no")

    receiving(name, receive)
    result = run(standard_tasks.add, 1)
    assert result.return_value == 2
    assert [each for each, *_ in heard].count("task_finished") == 1


def test_cancelled_job_is_announced_as_failed(heard):
    result = standard_tasks.noop.enqueue()
    assert Job.objects.get().cancel("Not needed.")
    result.refresh()
    assert result.status == FAILED
    assert result.errors[0].exception_class.__name__ == "JobCancelled"
    assert result.errors[0].traceback == "Not needed."
    assert result.attempts == 0
    assert heard[-1][0] == "task_finished"
    assert heard[-1][2:] == (result.id, FAILED)


def test_expired_job_is_announced_as_failed(heard):
    result = standard_tasks.noop.using(expires=timedelta(microseconds=1)).enqueue()
    drain()
    result.refresh()
    assert result.status == FAILED
    assert [name for name, *_ in heard] == ["task_enqueued", "task_finished"]


def test_job_of_a_dead_worker_is_failed_in_the_end(start_worker, heard):
    result = standard_tasks.die.using(max_crashes=1).enqueue()
    worker = start_worker("--concurrency", "1", registered=False)
    worker.wait()
    with running_worker():
        wait_for(lambda: heard[-1][0] == "task_finished", "the job is rescued")
    result.refresh()
    assert result.status == FAILED
    assert result.errors[-1].exception_class.__name__ == "WorkerLost"
    assert result.attempts == 1


def test_result_of_a_job_that_goes_on_is_that_of_the_newest():
    result = run(standard_tasks.goes_on, 0)
    assert Job.objects.count() == 2
    assert (result.status, result.return_value) == (SUCCESSFUL, 1)
    again = standard_tasks.goes_on.get_result(result.id)
    assert (again.id, again.return_value) == (result.id, 1)
