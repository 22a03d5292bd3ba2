"""Where tasks are declared, and what a project's first mistakes are answered with."""

import logging

import pytest
from django.core.checks import run_checks
from django.db import models

from pgjobs import enqueue, task
from pgjobs.exceptions import InvalidArguments, InvalidTask
from tests import tasks


def declare(module: str, text: str = "@task\ndef hidden(): pass"):
    """Run the text of a module; return its task."""
    namespace = {"__name__": module, "task": task}
    exec(text, namespace)
    return namespace["hidden"]


def warnings() -> dict[str | None, str]:
    return {message.id: f"{message.msg} {message.hint}" for message in run_checks()}


@pytest.mark.django_db
def test_task_in_a_module_that_workers_do_not_load_is_named_once(caplog):
    hidden = declare("boutique.views")
    with caplog.at_level(logging.WARNING, "pgjobs.tasks"):
        enqueue(hidden)
        enqueue(hidden.using(priority=5))
    (record,) = caplog.records
    assert (
        "name=boutique.views.hidden is declared in boutique.views"
        in record.getMessage()
    )
    assert "PGJOBS['TASK_MODULES']" in record.getMessage()


def test_check_names_tasks_in_modules_that_workers_do_not_load():
    assert "pgjobs.W047" not in warnings()
    declare("boutique.views")
    warning = warnings()["pgjobs.W047"]
    assert "boutique.views.hidden is declared in boutique.views" in warning
    assert "Move it to the tasks module of an app, or name its module in" in warning


def test_tasks_of_tests_need_no_worker():
    for module in ("boutique.tests.test_order", "tests.helpers", "boutique.test_order"):
        assert not declare(module).is_late
    assert not tasks.noop.is_late


def test_check_names_two_tasks_of_one_name_in_a_module():
    text = "@task\ndef hidden(): pass\n"
    declare("tests.elsewhere", text)
    declare("tests.elsewhere", text)  # imported again
    assert "pgjobs.W048" not in warnings()
    declare("tests.elsewhere", f"{text}\n\n{text}")
    assert (
        "tests.elsewhere.hidden is declared twice, in lines 1 and 5: the second"
        in warnings()["pgjobs.W048"]
    )


class Order(models.Model):
    class Meta:
        app_label = "elsewhere"
        managed = False

    def __str__(self) -> str:
        return "an order"


def test_instance_of_a_model_is_refused_and_the_cure_named():
    for value in (Order(pk=5), [Order(pk=5)]):
        with pytest.raises(InvalidArguments, match=r"is not JSON.*: pass its primary"):
            tasks.echo.bind(value)


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("delay", "call enqueue(task, ...)"),
        (
            "delay_on_commit",
            "call enqueue(task, ...) or task.enqueue(...): the job com",
        ),
        ("apply_async", "call enqueue(task.using(run_after=...), ...)"),
        ("send", "call enqueue(task, ...)"),
        ("defer", "call enqueue(task, ...)"),
        ("s", "call task.bind(...)"),
        ("si", "call task.bind(...)"),
        ("retry", "raise Retry(after=...) in the task"),
        ("request", "current_job() is the running job"),
    ],
)
def test_methods_of_other_queues_are_answered_with_ours(name, cure):
    with pytest.raises(AttributeError) as missing:
        getattr(tasks.noop, name)
    assert f"A task has no {name!r}; {cure}" in str(missing.value)


def test_signature_is_none_of_celery():
    with pytest.raises(TypeError, match=r"no signatures to call; call task\.bind"):
        tasks.noop.signature(1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            {"countdown": 5},
            "parameter of this task: options go into task.using(run_after",
        ),
        ({"queue": "mail"}, "options go into task.using(queue_name=...)"),
        ({"priority": 5}, "options go into task.using(priority=...)"),
        ({"valeu": 5}, "is no parameter of this task (did you mean 'value'?)"),
        ({"zzz": 5}, "is no parameter of this task."),
    ],
)
def test_options_among_arguments_are_told_where_they_belong(arguments, says):
    with pytest.raises(InvalidArguments) as refused:
        tasks.echo.bind(**arguments)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"queue": "mail"}, "no option 'queue' (did you mean 'queue_name'?)."),
        ({"max_retries": 3}, "(did you mean 'max_attempts'?)"),
        ({"priorty": 3}, "(did you mean 'priority'?)"),
        ({"retries": 3, "queue": "x"}, "(did you mean 'queue_name' and 'max_att"),
        ({"zzz": 3}, "no option 'zzz'; it has"),
        ({"bind": True}, "(leave it out: current_job() is the running job)."),
        ({"acks_late": True}, "(leave it out: a job stays in the table until its out"),
        ({"ignore_result": True, "queue": "x"}, "return None; did you mean 'queue_na"),
        ({"soft_time_limit": 5}, "(did you mean 'timeout'?)"),
    ],
)
def test_options_of_other_queues_are_answered_with_ours(options, says):
    for refuse in (lambda: task(**options), lambda: tasks.noop.using(**options)):
        with pytest.raises(InvalidTask) as refused:
            refuse()
        assert says in str(refused.value)


def test_option_that_only_using_has_is_not_meant_in_a_declaration():
    with pytest.raises(InvalidTask, match="no option 'countdown'; it has"):
        task(countdown=5)
    with pytest.raises(InvalidTask, match="did you mean 'run_after'"):
        tasks.noop.using(countdown=5)
