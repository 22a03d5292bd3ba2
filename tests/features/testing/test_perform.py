"""perform: one job as a worker would run it, without a row."""

from dataclasses import dataclass
from datetime import date

import pytest
from django.contrib.auth.models import Group

from pgjobs import (
    Cancel,
    Fail,
    Retry,
    Snooze,
    current_event,
    current_job,
    publish,
    task,
)
from pgjobs.exceptions import InvalidArguments, InvalidStep, InvalidTask
from pgjobs.models import Event, Job
from pgjobs.testing import Progress, perform
from tests import tasks
from tests.worker.test_execution import RETURNED


@dataclass
class Receipt:
    total: float


@task
def write_receipt(day: date, receipt: Receipt) -> dict:
    return {"day": day.isoformat(), "kind": type(receipt).__name__}


def test_arguments_and_result_go_through_json_without_a_database():
    performed = perform(write_receipt.bind(date(2026, 1, 2), Receipt(5.0)))
    assert performed.outcome == "SUCCESSFUL"
    assert performed.return_value == {"day": "2026-01-02", "kind": "Receipt"}
    assert (performed.reason, performed.delay) == ("", None)


def test_arguments_are_checked():
    with pytest.raises(InvalidArguments, match="a: input should be a valid integer"):
        perform(tasks.add.bind("5"))


def test_only_a_bound_task_is_performed():
    with pytest.raises(InvalidTask, match=r"takes what task\.bind\(\.\.\.\) returns"):
        perform(tasks.add)
    with pytest.raises(InvalidTask, match=r"perform\(task\.bind\(\.\.\.\)\)"):
        perform(tasks.add, 1, 2)


def test_result_that_is_no_json_fails_the_job():
    performed = perform(return_object.bind())
    assert performed.outcome == "FAILED"
    assert "The result cannot be stored" in performed.reason


@task
def return_object():
    return object()


def test_error_of_the_task_is_raised():
    with pytest.raises(ValueError, match=r"^no$"):
        perform(tasks.fail_with.bind("no"))


@task(max_attempts=3, backoff=lambda failures: 10 * failures)
def steer_job(how: str):
    raise {
        "retry": Retry(reason="busy"),
        "retry later": Retry(after=60),
        "snooze": Snooze(30),
        "cancel": Cancel("no need"),
        "fail": Fail("hopeless"),
    }[how]


@pytest.mark.parametrize(
    ("how", "outcome", "delay", "reason"),
    [
        ("retry", "RETRIED", 20, "busy"),
        ("retry later", "RETRIED", 60, "The task asked to be retried."),
        ("snooze", "SNOOZED", 30, "The task snoozed for 30 s."),
        ("cancel", "CANCELLED", None, "no need"),
        ("fail", "FAILED", None, "hopeless"),
    ],
)
def test_what_the_task_raises_to_steer_its_job_is_the_outcome(
    how, outcome, delay, reason
):
    performed = perform(steer_job.bind(how), attempt=2)
    assert (performed.outcome, performed.delay) == (outcome, delay)
    assert performed.reason == reason


def test_retry_of_the_last_attempt_is_a_failure():
    performed = perform(steer_job.bind("retry"), attempt=3)
    assert (performed.outcome, performed.delay) == ("FAILED", None)


def test_attempt_beyond_the_last_is_refused():
    with pytest.raises(ValueError, match="attempt must be 1 to 3, the max_attempts of"):
        perform(steer_job.bind("retry"), attempt=4)


def test_progress_log_and_steps_can_be_looked_at():
    performed = perform(
        work_in_steps.bind(), attempt=2, steps={"charge": "in attempt 1"}
    )
    assert performed.return_value == ["in attempt 1", "shipped"]
    assert performed.progress == [Progress(1, 2, "half"), Progress(2, None, "")]
    assert performed.log == ["a line", "another line"]
    assert performed.steps == {"charge": "in attempt 1", "ship": "shipped"}


@task
def work_in_steps():
    job = current_job()
    job.log("a line")
    job.progress(1, 2, "half")
    results = [job.step("charge", int), job.step("ship", lambda: "shipped")]
    job.progress(2)
    job.log("another line")
    assert job.still_owned()
    assert (job.event, job.batch) == (None, None)
    return results


def test_wrong_step_is_an_error():
    with pytest.raises(InvalidStep, match="was called before in this attempt"):
        perform(step_twice.bind())


@task
def step_twice():
    for _ in range(2):
        current_job().step("same", int)


def test_cooperative_task_is_asked_to_stop():
    assert perform(look_for_cancel.bind()).outcome == "SUCCESSFUL"
    assert perform(look_for_cancel.bind(), cancel_requested=True).outcome == "CANCELLED"


@task(cancel="cooperative")
def look_for_cancel():
    current_job().check_cancelled()


def test_async_task_is_performed():
    assert perform(return_async.bind()).return_value == "2"


@task
async def return_async():
    return await current_job().astep("two", two)


async def two():
    return "2"


def test_handler_gets_the_event():
    event = Event(name="tle.refreshed", payload={"satellite": 5}, aggregate_id="5")
    performed = perform(tell_event.bind(satellite=5), event=event)
    assert performed.return_value == ["tle.refreshed", {"satellite": 5}, "5"]


@task
def tell_event(satellite: int):
    event = current_event()
    return [event.name, event.payload, event.aggregate_id]


@pytest.mark.django_db
def test_jobs_that_it_enqueues_can_be_looked_at():
    performed = perform(enqueue_two.bind())
    assert [job.task for job in performed.jobs] == ["tests.noop", "tests.add"]
    assert Job.objects.count() == 2


@task
def enqueue_two():
    tasks.noop.enqueue()
    tasks.add.enqueue(1)


@pytest.mark.django_db
def test_atomic_task_that_fails_is_rolled_back():
    with pytest.raises(ValueError, match="no"):
        perform(insert_a_group_and_fail.bind())
    assert not Group.objects.exists()


@task(atomic=True)
def insert_a_group_and_fail():
    Group.objects.create(name="x")
    raise ValueError("no")


@pytest.mark.django_db
def test_published_event_may_be_given():
    event = publish("nothing.special", {"satellite": 5})
    performed = perform(tell_event.bind(satellite=5), event=event)
    assert performed.return_value[0] == "nothing.special"


@RETURNED
@pytest.mark.django_db
def test_tuple_is_returned_as_a_list(returning, result):
    assert perform(returning.bind()).return_value == result
