"""The kit for tests of projects: time passes without sleeping, and code answers."""

from datetime import timedelta

import pytest
from django.test import override_settings

from pgjobs import publish
from pgjobs.models import Step, Wait
from pgjobs.testing import perform, run_jobs
from tests.features.durable import bodies
from tests.features.durable.bodies import enqueued
from tests.support.declared import store_definitions

DAY = timedelta(days=1)


def refund(job):
    answer = job.wait_for("approval", bool, timeout=3 * DAY)
    if answer:
        job.sleep("cool-off", 14 * DAY)
    return answer


@pytest.mark.django_db
def test_run_jobs_runs_until_jobs_wait():
    job = enqueued(refund)
    assert [each.status for each in run_jobs()] == ["WAITING"]
    assert run_jobs() == []
    job.answer("approval", True)
    assert [each.status for each in run_jobs()] == ["SCHEDULED"]
    assert [each.return_value for each in run_jobs(until=15 * DAY)] == [True]


@pytest.mark.django_db
def test_time_passes_through_a_time_out():
    enqueued(refund)
    assert [each.status for each in run_jobs(until=2 * DAY)] == ["WAITING"]
    deadline = Wait.objects.get().deadline
    assert run_jobs(until=2 * DAY) == []
    assert Wait.objects.get().deadline == deadline
    (job,) = run_jobs(until=4 * DAY)
    assert (job.status, job.return_value) == ("SUCCESSFUL", None)


@pytest.mark.django_db
def test_time_that_passed_and_came_back_leaves_a_sleep_as_long_as_it_was():
    bodies.body = lambda job: job.sleep("nap", 3 * DAY)
    job = bodies.plain.enqueue()
    run_jobs(until=1 * DAY)
    job.refresh_from_db()
    assert Step.objects.get().finished_at == job.run_after


@pytest.mark.django_db
def test_events_of_a_test_wake():
    store_definitions()
    job = enqueued(lambda job: job.wait_for_event("order.paid").name)
    run_jobs()
    publish("order.paid")
    run_jobs()
    job.refresh_from_db()
    assert job.return_value == "order.paid"


@pytest.mark.django_db
def test_inline_job_that_waits_ends_the_run_and_waits():
    with override_settings(PGJOBS={"MODE": "inline"}):
        job = enqueued(refund)
    assert job.status == "WAITING"


def test_perform_says_that_the_task_waits_or_sleeps():
    bodies.body = refund
    waiting = perform(bodies.plain.bind())
    assert (waiting.outcome, waiting.steps) == ("WAITING", {})
    asleep = perform(bodies.plain.bind(), steps={"approval": True})
    assert (asleep.outcome, asleep.delay) == ("SLEEPING", 14 * 86_400)
    done = perform(bodies.plain.bind(), steps={"approval": True, "cool-off": None})
    assert (done.outcome, done.return_value) == ("SUCCESSFUL", True)


def counts_down(job, number):
    if number:
        job.continue_as(number - 1)
    return "done"


@pytest.mark.django_db
def test_run_jobs_runs_the_jobs_as_which_a_job_goes_on():
    bodies.body = counts_down
    job = bodies.numbered.enqueue(2)
    ran = run_jobs()
    assert [each.kwargs["number"] for each in ran] == [2, 1, 0]
    assert job.newest() == ran[-1]
    assert job.wait() == "done"


@pytest.mark.django_db
def test_inline_job_goes_on_inline():
    bodies.body = counts_down
    with override_settings(PGJOBS={"MODE": "inline"}):
        job = bodies.numbered.enqueue(2)
    assert job.status == "SUCCESSFUL"
    assert job.newest().return_value == "done"


def test_perform_says_with_which_arguments_the_task_goes_on():
    bodies.body = counts_down
    first = perform(bodies.numbered.bind(2))
    assert (first.outcome, first.continued_with) == ("CONTINUED", {"number": 1})
    assert perform(bodies.numbered.bind(0)).continued_with is None
