"""The options of pgjobs on tasks of Django's: from the code, and from the settings."""

import django
import pytest

import pgjobs
from pgjobs import task_options
from pgjobs.exceptions import AlreadyEnqueued
from pgjobs.exceptions import InvalidTask as InvalidOption
from pgjobs.models import Job
from tests import standard_tasks
from tests.processes import drain
from tests.standard import InvalidTask, Task, task, task_backends

pytestmark = pytest.mark.django_db


def job_of(result) -> Job:
    return Job.objects.get(pk=result.id)


def test_default_is_one_attempt():
    assert job_of(standard_tasks.noop.enqueue()).max_attempts == 1


def test_settings_have_options_for_all_tasks(use):
    use({"OPTIONS": {"max_attempts": 4, "timeout": 30}})
    job = job_of(standard_tasks.noop.enqueue())
    assert (job.max_attempts, job.timeout) == (4, 30)


def test_settings_have_options_for_one_task(use):
    tasks = {"tests.standard_tasks.noop": {"max_attempts": 7}}
    use({"OPTIONS": {"max_attempts": 4, "tasks": tasks}})
    assert job_of(standard_tasks.noop.enqueue()).max_attempts == 7
    assert job_of(standard_tasks.echo.enqueue(1)).max_attempts == 4


def test_code_comes_before_the_settings_for_all(use):
    use({"OPTIONS": {"max_attempts": 9}})
    assert job_of(standard_tasks.fail_twice.enqueue()).max_attempts == 3


def test_settings_for_one_task_come_before_the_code(use):
    tasks = {"tests.standard_tasks.fail_twice": {"max_attempts": 9}}
    use({"OPTIONS": {"tasks": tasks}})
    assert job_of(standard_tasks.fail_twice.enqueue()).max_attempts == 9


def test_end_of_a_job_is_followed_by_the_job_that_an_option_names(use):
    tasks = {"tests.standard_tasks.noop": {"on_success": "tests.note"}}
    use({"OPTIONS": {"tasks": tasks}})
    job = job_of(standard_tasks.noop.enqueue())
    assert job.succeed()
    assert Job.objects.get(task="tests.note").kwargs == {"job_id": job.pk}


def test_using_comes_before_all(use):
    tasks = {"tests.standard_tasks.noop": {"max_attempts": 9}}
    use({"OPTIONS": {"tasks": tasks}})
    declared = standard_tasks.noop.using(max_attempts=2)
    assert job_of(declared.enqueue()).max_attempts == 2
    assert job_of(standard_tasks.noop.enqueue()).max_attempts == 9


def test_using_keeps_what_it_does_not_name():
    declared = standard_tasks.noop.using(max_attempts=2, timeout=5)
    job = job_of(declared.using(priority=3, max_attempts=None).enqueue())
    assert (job.max_attempts, job.timeout, job.priority) == (2, 5, 3)


def test_key_is_made_of_the_arguments():
    job = job_of(standard_tasks.locked.enqueue(5))
    assert job.keys["lock"] == "account-5"
    assert (job.status, job.timeout) == ("WAITING", 60)
    assert job_of(standard_tasks.locked.enqueue(account=6)).keys["lock"] == "account-6"


def test_limit_and_rate_are_stored():
    job = job_of(standard_tasks.limited.enqueue(5))
    assert (job.keys["limit_key"], job.keys["max_running"]) == ("5", 1)
    assert job.keys["rate_burst"] == 100


def test_key_may_be_a_function_of_the_arguments():
    declared = standard_tasks.add.using(lock=lambda a, b: f"sum-{a + b}")
    assert job_of(declared.enqueue(1)).keys["lock"] == "sum-2"


def test_key_of_a_task_with_context_has_its_arguments():
    declared = standard_tasks.tell_context.using(lock="word-{word}")
    assert job_of(declared.enqueue("x")).keys["lock"] == "word-x"


def test_second_unique_job_is_the_first_one(heard):
    first = standard_tasks.once.enqueue(1, note="a")
    second = standard_tasks.once.enqueue(1, note="b")
    assert second.id == first.id
    assert second.args == [1]
    assert second.kwargs == {"note": "a"}
    assert [name for name, *_ in heard] == ["task_enqueued"]
    assert standard_tasks.once.enqueue(2).id != first.id


def test_second_unique_job_may_be_refused():
    first = standard_tasks.once.enqueue(1)
    with pytest.raises(AlreadyEnqueued) as refused:
        standard_tasks.once.using(on_conflict="raise").enqueue(1)
    assert str(refused.value.job.pk) == first.id


@pytest.mark.django_db(transaction=True)
def test_atomic_task_runs_in_a_transaction():
    result = standard_tasks.is_atomic.enqueue()
    drain()
    result.refresh()
    assert result.return_value is True


@pytest.mark.django_db(transaction=True)
def test_task_that_takes_too_long_is_ended():
    result = standard_tasks.sleep_too_long.enqueue()
    drain()
    result.refresh()
    assert result.errors[0].exception_class.__name__ == "TaskTimeout"


def test_function_with_options_runs_by_any_backend(settings):
    path = "django.tasks.backends.immediate.ImmediateBackend"
    if django.VERSION < (6, 0):
        path = path.replace("django.tasks", "django_tasks")
    settings.TASKS = {"default": {"BACKEND": path}}

    @task_options(max_attempts=3)
    def function(a):
        return a

    function.__qualname__ = "function"
    result = task(function).enqueue(1)
    assert result.return_value == 1


@pytest.mark.skipif(
    (6, 0) <= django.VERSION < (6, 1), reason="Django 6.0 refuses all other options"
)
def test_decorator_takes_options():
    declared = task(max_attempts=3, backoff=lambda failures: 0)(standard_tasks.add.func)
    assert isinstance(declared, Task)
    assert declared.options["max_attempts"] == 3
    assert declared.using(timeout=3).options["max_attempts"] == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_attempts": 0}, "max_attempts"),
        ({"lock": "{nothing}"}, "nothing"),
        ({"unique": ("nothing",)}, "nothing"),
        ({"on_conflict": "skip", "unique": True}, "skip"),
        ({"atomic": True}, "belongs to the task"),
        ({"backoff": lambda failures: 0}, "belongs to the task"),
        ({"rate": "many"}, "rate"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_option_is_refused_with_an_exception_of_django(options, message):
    with pytest.raises(InvalidTask, match=message):
        standard_tasks.add.using(**options).enqueue(1)
    assert not Job.objects.exists()


def test_wrong_option_is_refused_after_a_right_one():
    standard_tasks.add.using(max_attempts=3).enqueue(1)
    standard_tasks.add.enqueue(1)
    with pytest.raises(InvalidTask, match="max_attempts"):
        standard_tasks.add.using(max_attempts=0)


def test_same_options_are_validated_once(monkeypatch):
    declared = standard_tasks.add.using(max_attempts=3)
    declared.enqueue(1)
    adapters = task_backends["default"].adapters
    monkeypatch.setattr(adapters, "check_options", None)
    assert job_of(declared.enqueue(1)).max_attempts == 3


def test_unknown_option_is_a_type_error():
    with pytest.raises(TypeError, match="max_attempt"):
        standard_tasks.add.using(max_attempt=3)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempt": 3},
        {"queue_name": "x"},
        {"unique": True, "on_conflict": "skip"},
        {"chunk": 500},  # Django's task gets the arguments of one job
    ],
    ids=["unknown", "of Django", "skip", "chunk"],
)
def test_decorator_of_options_refuses_what_cannot_work(options):
    with pytest.raises(InvalidOption, match="@task_options"):
        task_options(**options)


def test_decorator_of_options_stands_below_djangos():
    with pytest.raises(InvalidOption, match=r"below Django's @task"):
        task_options(timeout=3)(standard_tasks.noop)


def test_decorators_of_options_add_up():
    @task_options(max_attempts=3)
    @task_options(timeout=1, max_attempts=5)
    def function():
        pass

    assert function.pgjobs_options == {"timeout": 1, "max_attempts": 3}
    assert pgjobs.task_options is task_options


# System checks


@pytest.mark.parametrize(
    ("options", "id"),
    [
        ({"max_attempts": 0}, "pgjobs.E051"),
        ({"max_attempt": 3}, "pgjobs.E051"),
        ({"tasks": {"tests.standard_tasks.noop": {"retries": 3}}}, "pgjobs.E051"),
        ({"tasks": 3}, "pgjobs.E051"),
        ({"tasks": {"tests.standard_tasks.noop": 3}}, "pgjobs.E051"),
        ({"database": "nowhere"}, "pgjobs.E052"),
        ({"tasks": {"tests.standard_tasks.nothing": {}}}, "pgjobs.W054"),
        ({"max_attempts": 3, "tasks": {"tests.standard_tasks.noop": {}}}, None),
    ],
)
def test_settings_are_checked(use, options, id):
    use({"OPTIONS": options})
    found = [each.id for each in task_backends["default"].check()]
    assert found == ([id] if id else [])


def test_missing_app_is_reported(settings):
    settings.INSTALLED_APPS = []
    assert [each.id for each in task_backends["default"].check()] == ["pgjobs.E050"]


def test_wrong_settings_refuse_the_task(use):
    use({"OPTIONS": {"max_attempts": 0}})
    with pytest.raises(InvalidTask, match="max_attempts"):
        standard_tasks.noop.enqueue()
