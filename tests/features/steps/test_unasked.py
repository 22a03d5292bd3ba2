"""A life that ends with steps that nobody asked for says so in the job's log."""

import pytest

from pgjobs import Cancel, Fail
from pgjobs.features.steps.running_job import MOST_LOGGED
from pgjobs.models import Job, Progress
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.processes import shared_queue

pytestmark = shared_queue
SAID = "did not ask for steps that are done: "


def log_of(job: Job) -> str:
    return "".join(Progress.objects.filter(job=job.pk).values_list("log", flat=True))


def waiting_behind_two_steps(job):
    job.step("count", lambda: 1)
    job.step("pay", lambda: 2)
    job.wait_for("approval", bool)


def after_a_deploy(body, task=bodies.plain) -> Job:
    """Return a job whose code was another one when it began to wait."""
    job = done(waiting_behind_two_steps, task)
    assert SAID not in log_of(job)
    job.answer("approval", True)
    bodies.body = body
    return goes_on(job)


def test_job_whose_code_has_dropped_a_step_names_it_at_its_end():
    def body(job):
        job.step("count", lambda: 1)
        job.wait_for("approval", bool)

    job = after_a_deploy(body)
    assert job.status == "SUCCESSFUL"
    assert f"{SAID}'pay'." in log_of(job)


def test_job_whose_code_asks_for_all_says_nothing():
    job = after_a_deploy(waiting_behind_two_steps)
    assert job.status == "SUCCESSFUL"
    assert log_of(job) == ""


def test_step_that_has_failed_once_and_is_marked_was_asked_for():
    def body(job):
        for attempt in (1, 2):
            try:
                job.step("flaky", lambda attempt=attempt: 1 // (attempt - 1))
            except ZeroDivisionError:
                continue

    job = done(body)
    assert (job.status, log_of(job)) == ("SUCCESSFUL", "")


@pytest.mark.parametrize(
    ("error", "status"),
    [(Fail("no"), "FAILED"), (Cancel("no"), "CANCELLED")],
)
def test_job_that_ends_itself_names_them_too(error, status):
    def body(job):
        job.step("count", lambda: 1)
        raise error

    job = after_a_deploy(body)
    assert job.status == status
    assert f"{SAID}'pay'." in log_of(job)


def test_failed_attempt_names_them_only_if_it_is_the_last_one():
    def body(job):
        job.step("count", lambda: 1)
        raise ValueError

    job = after_a_deploy(body)
    assert (job.status, job.failures) == ("FAILED", 2)
    assert log_of(job).count(SAID) == 1


def test_job_that_waits_on_or_snoozes_says_nothing():
    def body(job):
        job.step("count", lambda: 1)
        job.sleep("until tomorrow", 86_400)

    job = after_a_deploy(body)
    assert (job.status, log_of(job)) == ("SCHEDULED", "")


def test_job_that_goes_on_as_another_one_names_them():
    job = done(lambda job, number: waiting_behind_two_steps(job), bodies.numbered)
    job.answer("approval", True)

    def body(job, number):
        if number == 0:
            job.wait_for("approval", bool)
            job.continue_as(1)

    bodies.body = body
    goes_on(job)
    assert job.newest().status == "SUCCESSFUL"
    assert f"{SAID}'count', 'pay'" in log_of(job)


def test_line_of_many_steps_is_short():
    def many(job):
        for number in range(MOST_LOGGED + 3):
            job.step(f"{number}:" + "x" * 190, int)
        job.wait_for("approval", bool)

    job = done(many)
    job.answer("approval", True)
    bodies.body = lambda job: job.wait_for("approval", bool)
    goes_on(job)
    (line,) = log_of(job).splitlines()
    assert "and 3 others" in line


def test_job_that_asks_for_no_step_at_all_costs_no_look_at_them():
    job = after_a_deploy(lambda job: "done")
    assert (job.status, log_of(job)) == ("SUCCESSFUL", "")


def test_coroutine_names_them_too():
    async def waiting(job):
        await job.astep("count", int)
        await job.await_for("approval", bool)

    job = done(waiting, bodies.coroutine)
    job.answer("approval", True)

    async def body(job):
        await job.await_for("approval", bool)

    bodies.body = body
    goes_on(job)
    assert f"{SAID}'count'." in log_of(job)
