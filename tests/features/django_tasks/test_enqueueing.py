"""What `django.tasks` promises of enqueueing."""

import json
from datetime import datetime, timedelta

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction
from django.utils import timezone

from pgjobs.models import Job
from pgjobs.signals import job_enqueued
from pgjobs.testing import run_jobs
from tests import standard_tasks
from tests.actors import session
from tests.standard import (
    InvalidTask,
    TaskResultStatus,
    default_task_backend,
    signals,
    task,
    task_backends,
)

pytestmark = pytest.mark.django_db

NAN = float("nan")


def only_job() -> Job:
    return Job.objects.get()


def test_backend_supports_everything():
    backend = default_task_backend
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


@pytest.mark.parametrize(
    "declared", [standard_tasks.noop, standard_tasks.noop_async], ids=["sync", "async"]
)
def test_result_of_an_enqueued_task_is_ready(declared):
    result = declared.enqueue(1, two=3)
    assert result.status == TaskResultStatus.READY
    assert not result.is_finished
    assert result.task == declared
    assert (result.args, result.kwargs) == ([1], {"two": 3})
    assert result.enqueued_at is not None
    assert (result.started_at, result.finished_at) == (None, None)
    assert result.last_attempted_at is None
    assert result.backend == "default"
    assert (result.errors, result.worker_ids, result.attempts) == ([], [], 0)
    with pytest.raises(ValueError, match="Task has not finished yet"):
        result.return_value  # noqa: B018


def test_job_has_what_was_given():
    result = standard_tasks.noop.using(priority=7, queue_name="mail").enqueue(1, two=3)
    job = only_job()
    assert str(job.pk) == result.id
    assert job.task == "default:tests.standard_tasks.noop"
    assert (job.args, job.kwargs) == ([1], {"two": 3})
    assert (job.queue_name, job.priority) == ("mail", 7)
    assert job.max_attempts == 1


def test_task_is_enqueued_from_async_code():
    async def enqueue():
        return await standard_tasks.noop.aenqueue("one", two=2)

    result = async_to_sync(enqueue)()
    assert (result.args, result.kwargs) == (["one"], {"two": 2})
    assert only_job().pk == int(result.id)


def test_async_code_enqueues_in_the_transaction_around_it():
    with transaction.atomic():
        async_to_sync(standard_tasks.noop.aenqueue)()
        transaction.set_rollback(True)
    assert not Job.objects.exists()


def test_enqueueing_costs_one_query(django_assert_num_queries):
    standard_tasks.noop.enqueue()  # the first one finds its task
    with django_assert_num_queries(1):
        standard_tasks.noop.enqueue(1)


@pytest.mark.django_db(transaction=True)
def test_job_is_gone_when_the_transaction_is_rolled_back():
    with session() as other:
        with transaction.atomic():
            standard_tasks.noop.enqueue()
            assert other.execute("SELECT count(*) FROM pgjobs_job") == [(0,)]
            transaction.set_rollback(True)
        assert other.execute("SELECT count(*) FROM pgjobs_job") == [(0,)]


def test_arguments_are_normalised_as_django_does():
    result = standard_tasks.noop.enqueue((1, 2), b"text", key=[{"a": (None,)}])
    assert result.args == [[1, 2], "text"]
    assert result.kwargs == {"key": [{"a": [None]}]}
    assert only_job().args == result.args


def test_result_has_its_own_copy_of_the_arguments():
    given = {"a": [1]}
    result = standard_tasks.noop.enqueue(given)
    given["a"].append(2)
    assert result.args == [{"a": [1]}]


@pytest.mark.parametrize("value", [object(), {1, 2}, datetime(2026, 1, 1)])
def test_argument_of_another_type_is_a_type_error(value):
    with pytest.raises(TypeError, match="Unsupported type"):
        standard_tasks.noop.enqueue(value)
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    "value",
    [float("nan"), "\0", "\ud800", {1: "a", "1": "b"}, {NAN: 1}, b"\xff", 10**5000],
    ids=["NaN", "NUL", "surrogate", "keys", "key", "bytes", "digits"],
)
def test_argument_that_postgresql_cannot_store_is_a_value_error(value):
    with transaction.atomic():
        with pytest.raises(ValueError):
            standard_tasks.noop.enqueue(value)
        with pytest.raises(ValueError):
            standard_tasks.noop.enqueue(key=value)
        assert not Job.objects.exists()  # the transaction goes on


KEYS = {2024: "a", 1.5: {True: 1}, None: [{-3: 2}], "text": 1}
AS_JSON = {"2024": "a", "1.5": {"true": 1}, "null": [{"-3": 2}], "text": 1}


def test_keys_that_are_no_texts_arrive_as_json_writes_them():
    result = standard_tasks.echo.enqueue(KEYS)
    named = standard_tasks.echo.enqueue(value=[KEYS])
    assert result.args == [AS_JSON]
    assert [job.args for job in Job.objects.order_by("pk")] == [[AS_JSON], []]
    run_jobs()
    result.refresh()
    named.refresh()
    assert (result.return_value, named.return_value) == (AS_JSON, [AS_JSON])
    assert result.args == [AS_JSON] == json.loads(json.dumps([KEYS]))


def test_arguments_may_be_too_large(settings):
    settings.PGJOBS = {"MAX_ARGUMENT_BYTES": 100}
    standard_tasks.noop.enqueue("x" * 90)
    with pytest.raises(ValueError, match="more than the 100"):
        standard_tasks.noop.enqueue("x" * 101)


# When it runs


def test_task_may_run_later():
    later = timezone.now() + timedelta(hours=1)
    result = standard_tasks.noop.using(run_after=later).enqueue()
    assert result.task.run_after == later
    assert result.status == TaskResultStatus.READY
    job = only_job()
    assert (job.status, job.run_after) == ("SCHEDULED", later)


def test_task_may_run_after_a_time():
    declared = standard_tasks.noop.using(run_after=timedelta(hours=1))
    hour = declared.run_after - timezone.now()
    assert timedelta(minutes=59) < hour <= timedelta(hours=1)
    declared.enqueue()
    assert only_job().status == "SCHEDULED"


def test_naive_time_is_refused():
    with pytest.raises(InvalidTask, match="aware"):
        standard_tasks.noop.using(run_after=datetime(2026, 1, 1))


def test_naive_time_is_local_where_time_zones_are_off(settings):
    settings.USE_TZ = False
    settings.TIME_ZONE = "Asia/Tokyo"
    standard_tasks.noop.using(run_after=datetime(2099, 1, 1, 9)).enqueue()
    settings.USE_TZ = True
    assert only_job().run_after.isoformat() == "2099-01-01T00:00:00+00:00"


# What is refused


@pytest.mark.parametrize("priority", [-101, 101, 1.5])
def test_priority_must_be_in_range(priority):
    with pytest.raises(InvalidTask, match="priority"):
        standard_tasks.noop.using(priority=priority)


def test_function_must_be_of_a_module():
    def inner():
        pass

    with pytest.raises(InvalidTask, match="module level"):
        task(inner)
    with pytest.raises(InvalidTask, match="module level"):
        task(lambda: None)


def test_context_must_be_the_first_argument():
    with pytest.raises(InvalidTask, match="context"):
        task(takes_context=True)(standard_tasks.undecorated)


def test_queue_must_be_known(use):
    use({"QUEUES": ["default", "mail"]})
    standard_tasks.noop.using(queue_name="mail").enqueue()
    with pytest.raises(InvalidTask, match="Queue 'other' is not valid"):
        standard_tasks.noop.using(queue_name="other")


def test_task_is_validated_again_when_it_is_enqueued(use):
    declared = standard_tasks.noop.using(queue_name="other")
    use({"QUEUES": ["default"]})
    with pytest.raises(InvalidTask, match="Queue 'other' is not valid"):
        declared.enqueue()


@pytest.mark.parametrize(
    "name",
    ["", "a,b", "x" * 201, "\0", " a", "\ud800"],
    ids=["empty", "comma", "long", "NUL", "space", "surrogate"],
)
def test_queue_name_must_be_storable(name):
    with pytest.raises(InvalidTask, match="queue_name"):
        standard_tasks.noop.using(queue_name=name)


def test_path_may_be_too_long(monkeypatch):
    function = standard_tasks.undecorated
    monkeypatch.setattr(function, "__qualname__", "x" * 200)
    with pytest.raises(InvalidTask, match="1 to 200 characters"):
        task(function)


@pytest.mark.parametrize(
    "declared",
    [standard_tasks.renamed, standard_tasks.hidden, standard_tasks.first_of_two],
    ids=["name", "lambda", "defined twice"],
)
def test_path_must_lead_to_the_task(declared):
    with pytest.raises(InvalidTask, match="is not this task"):
        declared.enqueue()
    assert not Job.objects.exists()


def test_shadowed_task_is_refused(monkeypatch):
    declared = standard_tasks.add
    default_task_backend.adapters.by_function.clear()
    monkeypatch.setattr(standard_tasks, "add", standard_tasks.echo)
    with pytest.raises(InvalidTask, match="is not this task"):
        declared.enqueue(1)


def test_module_that_workers_do_not_import_is_refused(settings):
    function = json.dumps
    with pytest.raises(InvalidTask, match=r"PGJOBS\['TASK_MODULES'\]"):
        task(function).enqueue(1)


@pytest.mark.parametrize(
    "path", ["antigravity.fly", "os.system", "nothing", "tests.nowhere.task", "..", ""]
)
def test_looking_for_a_task_imports_nothing(path, monkeypatch):
    imported = []
    monkeypatch.setattr(
        "pgjobs.features.django_tasks.task_lookup.import_module",
        lambda name: imported.append(name),
    )
    assert default_task_backend.adapters.find(path) is None
    assert imported == []


# Signals


def test_signal_says_that_a_task_is_enqueued(heard):
    result = standard_tasks.noop.enqueue()
    sender = type(task_backends["default"])
    assert heard == [("task_enqueued", sender, result.id, TaskResultStatus.READY)]


def test_receiver_that_raises_does_not_spoil_enqueueing(caplog):
    def receive(**kwargs):
        raise ValueError("no")

    signals.task_enqueued.connect(receive)
    try:
        result = standard_tasks.noop.enqueue()
    finally:
        signals.task_enqueued.disconnect(receive)
    assert Job.objects.filter(pk=result.id).exists()
    assert "failed" in caplog.text


def test_own_signal_is_sent_as_well():
    seen = []

    def receive(job, **kwargs):
        seen.append(str(job.pk))

    job_enqueued.connect(receive)
    try:
        result = standard_tasks.noop.enqueue()
    finally:
        job_enqueued.disconnect(receive)
    assert seen == [result.id]


# Several backends


def test_aliases_have_jobs_of_their_own(use):
    use(mail={"QUEUES": ["mail"]})
    result = standard_tasks.noop.using(backend="mail", queue_name="mail").enqueue()
    assert result.backend == "mail"
    assert only_job().task == "mail:tests.standard_tasks.noop"
    assert task_backends["mail"].get_result(result.id).backend == "mail"


@pytest.mark.django_db(transaction=True)
def test_backend_may_have_a_database_of_its_own(use, other):
    use(far={"OPTIONS": {"database": "other"}})
    with transaction.atomic():  # in the other database it is committed at once
        result = standard_tasks.noop.using(backend="far").enqueue()
        transaction.set_rollback(True)
    assert task_backends["far"].get_result(result.id).id == result.id
    connections["other"].close()
