"""Results are views of rows: reading them validates nothing and never crashes."""

import pickle
from datetime import timedelta

import django
import pytest
from asgiref.sync import async_to_sync

from pgjobs.models import Job
from tests import standard_tasks
from tests.actors import Hand, run_next
from tests.standard import (
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    task_backends,
)
from tests.tasks import noop

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    "id",
    [
        "1",
        "0",
        "-1",
        "x",
        "",
        "1" * 30,
        "1.0",
        " 1",
        "٣",
        "1\0",
        None,
        1,
        "9" * 19,
        str(2**63 - 1),
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
    ],
    ids=repr,
)
def test_unknown_id_raises_without_spoiling_the_transaction(id):
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(id)
    assert Job.objects.count() == 0


def test_result_is_found_by_its_id():
    result = standard_tasks.add.enqueue(1)
    assert default_task_backend.get_result(result.id) == result
    assert standard_tasks.add.get_result(result.id) == result
    assert async_to_sync(standard_tasks.add.aget_result)(result.id) == result


def test_id_is_a_short_text():
    result = standard_tasks.noop.enqueue()
    assert isinstance(result.id, str)
    assert len(result.id) <= 64


def test_result_of_another_task_is_a_mismatch():
    result = standard_tasks.add.enqueue(1)
    with pytest.raises(TaskResultMismatch):
        standard_tasks.echo.get_result(result.id)


def test_native_job_has_no_result():
    job = noop.enqueue()
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(str(job.pk))


def test_deleted_job_has_no_result():
    result = standard_tasks.noop.enqueue()
    Job.objects.all().discard()
    with pytest.raises(TaskResultDoesNotExist):
        result.refresh()


def test_result_of_another_alias_is_not_found(use):
    use(mail={})
    result = standard_tasks.noop.enqueue()
    with pytest.raises(TaskResultDoesNotExist):
        task_backends["mail"].get_result(result.id)


def test_result_has_the_task_as_it_was_enqueued():
    declared = standard_tasks.noop.using(priority=5, queue_name="mail")
    result = declared.enqueue()
    assert default_task_backend.get_result(result.id).task == declared


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ("READY", TaskResultStatus.READY),
        ("SCHEDULED", TaskResultStatus.READY),
        ("WAITING", TaskResultStatus.READY),
        ("CANCELLED", TaskResultStatus.FAILED),
    ],
)
def test_statuses_are_compressed_into_those_of_django(status, shown):
    declared = standard_tasks.noop
    match status:
        case "SCHEDULED":
            declared = declared.using(run_after=timedelta(hours=1))
        case "WAITING":
            declared = declared.using(lock="x")
    result = declared.enqueue()
    if status == "CANCELLED":
        assert Job.objects.get().cancel()
    assert Job.objects.get().status == status
    result.refresh()
    assert result.status == shown
    assert type(result.status) is TaskResultStatus


@pytest.mark.skipif(django.VERSION < (6, 1), reason="Django 6.1 lets tasks pickle")
def test_task_and_result_pickle():
    declared = standard_tasks.noop.using(timeout=3, priority=5)
    result = declared.enqueue(1)
    assert pickle.loads(pickle.dumps(declared)) == declared
    assert pickle.loads(pickle.dumps(result)) == result


def test_queue_that_is_gone_hides_no_result(use):
    result = standard_tasks.noop.using(queue_name="mail").enqueue()
    use({"QUEUES": ["default"]})
    again = default_task_backend.get_result(result.id)
    assert again.task.queue_name == "mail"


def test_alias_that_is_gone_hides_no_result(use):
    use(mail={})
    result = standard_tasks.noop.using(backend="mail").enqueue()
    use()
    again = default_task_backend.get_result(result.id)
    assert again.backend == "mail"
    again.refresh()


def test_function_that_is_gone_hides_no_result(monkeypatch):
    result = standard_tasks.add.enqueue(1)
    monkeypatch.delattr(standard_tasks, "add")
    default_task_backend.adapters.by_path.clear()
    again = default_task_backend.get_result(result.id)
    assert again.task.module_path == "tests.standard_tasks.add"
    assert again.task.name == "add"
    again.refresh()
    repr(again)


def test_module_that_is_gone_hides_no_result():
    job = Job.objects.create(task="default:tests.nowhere.anything")
    job = Job.objects.get()
    result = default_task_backend.get_result(str(job.pk))
    assert result.task.module_path == "tests.nowhere.anything"


def test_row_with_any_number_of_attempts_can_be_read():
    Job.objects.create(task="default:tests.standard_tasks.noop")
    job = Job.objects.get()
    job = Hand().claim_one()
    Job.objects.filter(pk=job.id).update(attempts=2_000_000_000)
    assert default_task_backend.get_result(str(job.id)).attempts == 10_000


def test_refreshing_brings_what_has_changed():
    result = standard_tasks.noop.enqueue()
    run_next()
    assert result.status == TaskResultStatus.READY
    async_to_sync(result.arefresh)()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.return_value is None


def test_success_after_an_operators_retry_shows_its_own_life():
    result = standard_tasks.noop.enqueue()
    run_next("FAIL")
    result.refresh()
    assert len(result.errors) == 1
    assert Job.objects.get().retry()
    run_next()
    result.refresh()
    assert (result.errors, result.attempts) == ([], 1)


def test_operator_who_fails_a_job_fails_the_task():
    result = standard_tasks.noop.enqueue()
    assert Job.objects.get().fail("Not now.")
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[0].exception_class.__name__ == "JobFailed"
    assert result.errors[0].traceback == "Not now."
