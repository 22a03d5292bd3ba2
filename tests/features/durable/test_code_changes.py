"""Code changes while jobs wait: each row of docs/guides/code_changes.md.

A job of the old code runs until it waits. Then the task gets another function, as by a
deploy that replaces all workers, and the job goes on.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.utils import timezone

from pgjobs import Answer, current_job, publish, task
from pgjobs.models import AuditEntry, Job, Progress, Step, Wait
from pgjobs.tasks.registry import registry
from tests.features.durable.bodies import goes_on
from tests.features.durable.test_verbs import run
from tests.processes import shared_queue
from tests.support.declared import store_definitions

pytestmark = shared_queue
NAME = "shop.refund"
DAY = timedelta(days=1)
UNASKED = "did not ask for steps that are done: "
seen: list[str] = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


def note(name: str) -> str:
    seen.append(name)
    return name


def deploy(function: Callable[..., Any], **options: Any) -> None:
    """Let workers run this function as the task, and no other one."""
    remove_task()
    function.__qualname__ = function.__name__  # as a function of a module has it
    task(**{"name": NAME, "max_attempts": 1, **options})(function)
    store_definitions()


def remove_task() -> None:
    others = {
        origin: each
        for origin, each in registry.tasks.items()
        if NAME not in each.names
    }
    registry.tasks = others
    registry.forget_names()


def waiting(function: Callable[..., Any], *arguments: Any, **options: Any) -> Job:
    """Return a job of this code, which waits or sleeps."""
    deploy(function, **options)
    job = goes_on(registry.get(NAME).enqueue(*arguments))
    assert job.status in ("WAITING", "SCHEDULED"), job.reason
    return job


def answered(job: Job, value: Any = True, name: str = "approval") -> Job:
    assert job.answer(name, value)
    return goes_on(job)


def log_of(job: Job) -> str:
    return "".join(Progress.objects.filter(job=job.pk).values_list("log", flat=True))


def open_waits(job: Job) -> list[str]:
    waits = Wait.objects.filter(job=job, ended_at=None)
    return sorted(waits.values_list("name", flat=True))


def pays_with_approval(order_id: int = 5):
    job = current_job()
    job.step("amount", note, "amount")
    approved = job.wait_for("approval", bool)
    job.step("pay", note, "pay")
    return approved


# Steps


def test_added_steps_run_when_the_job_goes_on_also_those_before_the_wait():
    def changed(order_id: int = 5):
        job = current_job()
        job.step("check", note, "check")
        pays_with_approval()
        job.step("mail", note, "mail")

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "SUCCESSFUL"
    assert seen == ["amount", "check", "pay", "mail"]
    assert UNASKED not in log_of(job)


def test_dropped_step_is_named_in_the_log_if_it_was_done():
    def changed(order_id: int = 5):
        current_job().wait_for("approval", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "SUCCESSFUL"
    assert seen == ["amount"]
    assert f"{UNASKED}'amount'" in log_of(job)


def test_renamed_step_runs_again():
    def changed(order_id: int = 5):
        current_job().step("sum", note, "sum")
        current_job().wait_for("approval", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "SUCCESSFUL"
    assert seen == ["amount", "sum"]
    assert f"{UNASKED}'amount'" in log_of(job)


def test_moved_step_that_is_done_is_not_repeated():
    def changed(order_id: int = 5):
        job = current_job()
        approved = job.wait_for("approval", bool)
        job.step("pay", note, "pay")
        assert job.step("amount", note, "amount") == "amount"
        return approved

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).return_value is True
    assert seen == ["amount", "pay"]


def test_step_with_another_result_still_gives_the_old_one_where_it_is_done():
    def changed(order_id: int = 5):
        amount = current_job().step("amount", lambda: {"cents": 500})
        current_job().wait_for("approval", bool)
        return amount

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).return_value == "amount"


def test_step_of_another_function_is_not_called_where_it_is_done():
    def changed(order_id: int = 5):
        current_job().step("amount", note, "a better amount")
        current_job().wait_for("approval", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "SUCCESSFUL"
    assert seen == ["amount"]


def test_code_outside_of_steps_runs_again_as_it_is_now():
    def changed(order_id: int = 5):
        note("new line")
        current_job().wait_for("approval", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    answered(job)
    assert seen == ["amount", "new line"]


# Waits


def test_added_wait_before_the_one_that_was_answered_is_asked_next_and_both_are_taken():
    def changed(order_id: int = 5):
        second = current_job().wait_for("second opinion", bool)
        return [second, current_job().wait_for("approval", bool)]

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "WAITING"
    assert open_waits(job) == ["second opinion"]
    answered(job, False, "second opinion")
    assert job.return_value == [False, True]


def test_dropped_wait_holds_the_job_until_it_is_answered_or_marked():
    def changed(order_id: int = 5):
        current_job().step("pay", note, "pay")

    job = waiting(pays_with_approval)
    deploy(changed)
    assert goes_on(job).status == "WAITING"
    assert "approval" in run("waits", "--task", NAME)
    run("mark-step", job.pk, "approval", "--value", "null")
    assert goes_on(job).status == "SUCCESSFUL"
    assert seen == ["amount", "pay"]


def test_renamed_wait_is_asked_anew_and_its_old_answer_counts_for_nothing():
    def changed(order_id: int = 5):
        return current_job().wait_for("consent", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job, True).status == "WAITING"
    assert open_waits(job) == ["consent"]
    assert answered(job, False, "consent").return_value is False


def test_job_at_a_renamed_wait_gets_its_value_by_the_new_name():
    def changed(order_id: int = 5):
        return current_job().wait_for("consent", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert job.answer("consent", True)
    assert goes_on(job).status == "WAITING", "it still waits by the old name"
    run("mark-step", job.pk, "approval", "--value", "null")
    assert goes_on(job).return_value is True


def test_open_wait_with_another_type_takes_old_answers_until_it_asks_again():
    def changed(order_id: int = 5):
        return current_job().wait_for("approval", int)

    job = waiting(pays_with_approval)
    deploy(changed)
    with pytest.raises(ValueError, match="approval"):
        job.answer("approval", 1_200)
    assert answered(job, True).status == "WAITING"
    assert "An answer to 'approval' was dropped" in log_of(job)
    assert answered(job, 1_200).return_value == 1_200


def test_answer_that_fits_both_types_is_taken():
    def changed(order_id: int = 5):
        return current_job().wait_for("approval", bool | int)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job, True).return_value is True


def asks_and_sleeps(order_id: int = 5):
    approved = current_job().wait_for("approval", bool)
    current_job().sleep("cool-off", 14 * DAY)
    return approved


def test_wait_that_was_taken_and_has_another_type_fails_and_can_go_on_later():
    def changed(order_id: int = 5):
        amount = current_job().wait_for("approval", list[int])
        current_job().sleep("cool-off", 14 * DAY)
        return amount

    job = waiting(asks_and_sleeps)
    answered(job)
    deploy(changed)
    job.run_now()
    assert goes_on(job).status == "FAILED"
    assert "The wait 'approval' has ended with True" in job.reason
    deploy(asks_and_sleeps)
    assert job.retry(keep_steps=True)
    goes_on(job)
    job.run_now()
    assert goes_on(job).return_value is True


def test_new_title_is_shown_once_the_job_asks_again():
    def changed(order_id: int = 5):
        current_job().wait_for("approval", bool, title="May we?")

    job = waiting(pays_with_approval)
    deploy(changed)
    assert goes_on(job).status == "WAITING"
    assert Wait.objects.get(job=job).asked["title"] == ""


@pytest.mark.django_db(transaction=True)
def test_new_permission_counts_when_the_answer_is_taken():
    def changed(order_id: int = 5):
        return current_job().wait_for("approval", bool, permission="auth.add_user")

    job = waiting(pays_with_approval)
    clerk = User.objects.create_user("clerk")
    clerk.user_permissions.add(Permission.objects.get(codename="answer_job"))
    deploy(changed)
    assert job.answer("approval", True, by=User.objects.get(pk=clerk.pk))
    assert goes_on(job).status == "WAITING"
    assert "lacks the permission auth.add_user" in log_of(job)
    assert AuditEntry.objects.filter(act="answer", object_id=job.pk).exists()
    assert Wait.objects.get(job=job, ended_at=None).permission == "auth.add_user"


def test_new_time_of_a_wait_or_sleep_counts_for_those_that_begin_later():
    def changed(order_id: int = 5):
        approved = current_job().wait_for("approval", bool, timeout=DAY)
        current_job().sleep("cool-off", 2 * DAY)
        return approved

    job = waiting(asks_and_sleeps)
    deploy(changed)
    asked_until = Wait.objects.get(job=job).deadline
    assert asked_until > timezone.now() + 20 * DAY
    answered(job)
    until = job.run_after
    assert until < timezone.now() + 3 * DAY
    deploy(asks_and_sleeps)
    assert goes_on(job).run_after == until


def waits_for_payment(order_id: int = 5):
    event = current_job().wait_for_event("order.paid", timeout=DAY)
    return event and event.name


def test_wait_for_another_event_is_noticed_only_once_the_job_goes_on():
    def changed(order_id: int = 5):
        event = current_job().wait_for_event("invoice.paid", name="order.paid")
        return event and event.name

    job = waiting(waits_for_payment, waits_for=("order.paid",))
    deploy(changed, waits_for=("invoice.paid",))
    publish("invoice.paid")
    assert goes_on(job).status == "WAITING"
    publish("order.paid")  # which the new code does not take
    assert goes_on(job).return_value == "invoice.paid"


def test_answer_in_place_of_an_event_is_asked_for_once_the_job_goes_on():
    def changed(order_id: int = 5):
        return current_job().wait_for_first({"paid": Answer(bool)}, name="order.paid")

    job = waiting(waits_for_payment, waits_for=("order.paid",))
    deploy(changed)
    assert job.waiting_for == "event"
    publish("order.paid")
    assert (goes_on(job).status, job.waiting_for) == ("WAITING", "answer")
    assert answered(job, True, "paid").return_value == ["paid", True]


# Arguments


def test_added_parameter_with_a_default_changes_nothing():
    def changed(order_id: int, note: str = "none"):
        pays_with_approval()
        return note

    job = waiting(pays_with_approval, 5)
    deploy(changed)
    assert answered(job).return_value == "none"


@pytest.mark.parametrize("way", ["added", "dropped"])
def test_arguments_that_do_not_fit_fail_the_job_which_goes_on_when_they_do(way):
    def added(order_id: int, note: str):
        asks_and_sleeps()

    def dropped():
        asks_and_sleeps()

    job = waiting(asks_and_sleeps, 5, max_attempts=3)
    answered(job)
    deploy({"added": added, "dropped": dropped}[way], max_attempts=3)
    assert job.mark_step("cool-off", None)
    assert goes_on(job).status == "FAILED"
    assert (job.failures, job.reason[:17]) == (1, "Invalid arguments")
    deploy(asks_and_sleeps)
    assert job.retry(keep_steps=True)
    assert goes_on(job).return_value is True


# The task


def test_renamed_task_with_an_alias_goes_on():
    job = waiting(pays_with_approval)
    remove_task()
    task(name="shop.repay", aliases=(NAME,))(pays_with_approval)
    assert answered(job).return_value is True
    assert seen == ["amount", "pay"]


def test_job_of_a_task_that_is_gone_waits_fails_and_goes_on_once_it_is_back(settings):
    settings.PGJOBS = {**settings.PGJOBS, "UNKNOWN_TASK_GRACE": 0}
    job = waiting(asks_and_sleeps)
    answered(job)
    remove_task()
    assert goes_on(job).status == "SCHEDULED"
    assert job.mark_step("cool-off", None)
    assert goes_on(job).status == "FAILED"
    assert NAME in job.reason
    deploy(asks_and_sleeps)
    assert job.retry(keep_steps=True)
    assert goes_on(job).return_value is True


def test_version_of_a_waiting_job_is_that_of_the_code_that_enqueued_it():
    def changed(order_id: int = 5):
        if current_job().version >= 2:
            current_job().step("check", note, "check")
        pays_with_approval()

    old = waiting(pays_with_approval)
    deploy(changed, version=2)
    answered(old)
    assert seen == ["amount", "pay"]
    new = goes_on(registry.get(NAME).enqueue(5))
    answered(new)
    assert seen == ["amount", "pay", "check", "amount", "pay"]


def test_new_timeout_counts_from_the_next_stretch():
    def changed(order_id: int = 5):
        current_job().wait_for("approval", bool)
        for _ in range(3_000):
            time.sleep(0.01)  # where an exception of Python's reaches

    job = waiting(pays_with_approval)
    deploy(changed, timeout=0.3)
    assert answered(job).status == "FAILED"
    assert "TaskTimeout" in job.reason


def test_new_deadline_counts_for_jobs_that_are_enqueued_from_then_on():
    old = waiting(pays_with_approval)
    deploy(pays_with_approval, deadline=DAY)
    new = registry.get(NAME).enqueue(5)
    old.refresh_from_db()
    assert (old.keys, new.keys) == (None, {"deadline": DAY.total_seconds()})
    assert answered(old).status == "SUCCESSFUL"


def test_new_queue_lock_and_priority_count_for_jobs_that_are_enqueued_from_then_on():
    job = waiting(pays_with_approval, queue_name="money", lock="door")
    deploy(pays_with_approval, priority=7)
    answered(job)
    kept = (job.queue_name, job.keys["lock"], job.priority)
    assert (job.status, kept) == ("SUCCESSFUL", ("money", "door", 0))


def test_new_backoff_counts_for_a_waiting_job_and_its_attempts_stay_as_enqueued():
    def changed(order_id: int = 5):
        current_job().wait_for("approval", bool)
        note("try")
        raise ArithmeticError

    job = waiting(pays_with_approval, max_attempts=3, backoff=lambda failures: 3_600)
    deploy(changed, max_attempts=1, backoff=lambda failures: 0)
    assert answered(job).status == "FAILED"
    assert seen == ["amount", "try", "try", "try"]


def test_task_that_becomes_a_coroutine_goes_on_with_its_steps():
    async def changed(order_id: int = 5):
        job = current_job()
        await job.astep("amount", note, "amount")
        return await job.await_for("approval", bool)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).return_value is True
    assert seen == ["amount"]


def test_task_that_becomes_atomic_fails_at_its_next_wait():
    def changed(order_id: int = 5):
        current_job().wait_for("approval", bool)
        current_job().sleep("cool-off", DAY)

    job = waiting(pays_with_approval)
    deploy(changed, atomic=True)
    assert answered(job).status == "FAILED"
    assert "in a transaction" in job.reason


def test_mended_task_goes_on_after_the_last_step():
    def broken(order_id: int = 5):
        current_job().step("amount", note, "amount")
        current_job().wait_for("approval", bool)
        raise ArithmeticError

    job = waiting(broken)
    assert answered(job).status == "FAILED"
    deploy(pays_with_approval)
    assert job.retry(keep_steps=True)
    assert goes_on(job).return_value is True
    assert seen == ["amount", "pay"]


# Old and new workers side by side


def test_old_worker_goes_on_where_a_new_one_has_stopped_and_back():
    def changed(order_id: int = 5):
        job = current_job()
        job.step("check", note, "check")
        job.wait_for("second opinion", bool)
        return pays_with_approval()

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "WAITING"
    assert job.answer("second opinion", True)
    deploy(pays_with_approval)  # the worker that takes it is an old one
    assert goes_on(job).return_value is True
    assert seen == ["amount", "check", "pay"]
    assert f"{UNASKED}'check'" in log_of(job)


def test_steps_that_were_done_by_the_old_code_are_kept_after_a_roll_back():
    def changed(order_id: int = 5):
        job = current_job()
        job.step("amount", note, "amount")
        job.wait_for("approval", bool)
        job.step("invoice", note, "invoice")
        job.sleep("nap", DAY)

    job = waiting(pays_with_approval)
    deploy(changed)
    assert answered(job).status == "SCHEDULED"
    deploy(pays_with_approval)
    job.run_now()
    assert goes_on(job).return_value is True
    assert seen == ["amount", "invoice", "pay"]
    names = Step.objects.filter(job=job).values_list("name", flat=True)
    assert {*names} == {"amount", "approval", "invoice", "nap", "pay"}
