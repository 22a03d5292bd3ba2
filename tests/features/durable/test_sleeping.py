"""Sleeps: a job leaves its slot, and goes on behind the call when it is due."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from pgjobs import current_job, enqueue, task
from pgjobs.exceptions import Suspended
from pgjobs.features.steps.running_job import MOST_STEPS
from pgjobs.models import Attempt, Job, Step
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import done, enqueued, goes_on
from tests.processes import drain, run, shared_queue

pytestmark = shared_queue
DAY = timedelta(days=1)
seen: list = []


@pytest.fixture(autouse=True)
def nothing_seen():
    seen.clear()


@task
def nap(days: float = 1):
    seen.append("before")
    current_job().step("first", seen.append, "step")
    current_job().sleep("nap", timedelta(days=days))
    seen.append("after")
    return "awake"


def test_sleep_leaves_the_job_scheduled_for_its_end():
    before = timezone.now()
    job = run(nap)
    assert (job.status, job.failures, job.crashes) == ("SCHEDULED", 0, 0)
    assert before + DAY <= job.run_after <= timezone.now() + DAY
    assert seen == ["before", "step"]


def test_suspended_stretch_leaves_no_attempt_and_its_step_is_the_record():
    job = run(nap)
    assert not Attempt.objects.filter(job=job).exists()
    step = Step.objects.get(job=job, name="nap")
    assert step.finished_at == job.run_after


def test_run_now_ends_the_sleep():
    job = run(nap)
    assert job.run_now()
    drain()
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", "awake")
    assert job.attempts == 2
    assert seen == ["before", "step", "before", "after"]


def test_sleep_until_a_moment_that_has_passed_ends_at_once():
    job = done(lambda job: job.sleep("nap", timezone.now() - DAY))
    assert (job.status, job.attempts) == ("SUCCESSFUL", 2)


@task(max_attempts=2, backoff=lambda failures: 0)
def naps_and_fails():
    job = current_job()
    for number in range(3):
        if len(seen) == 2 * number:
            seen.append(number)
            raise ValueError("a bad deploy")
        job.sleep(f"nap {number}", 0)
        if len(seen) == 2 * number + 1:
            seen.append(number)
    return "awake"


def test_failures_begin_anew_with_each_stretch():
    job = run(naps_and_fails)
    assert (job.status, job.reason) == ("SUCCESSFUL", "")
    assert job.failures == 0
    assert Attempt.objects.filter(job=job, outcome="FAILED").count() == 3


@task(cancel="cooperative")
def cancels_itself():
    Job.objects.all().cancel("not needed")
    current_job().sleep("nap", DAY)


def test_job_that_is_to_be_cancelled_does_not_sleep():
    job = run(cancels_itself)
    assert (job.status, job.reason) == ("CANCELLED", "not needed")
    assert not Step.objects.exists()
    assert Attempt.objects.get(job=job).outcome == "CANCELLED"


@task
def swallows_all():
    try:
        current_job().sleep("nap", DAY)
    except BaseException:  # noqa: BLE001  (as some projects do)
        seen.append("swallowed")
    with pytest.raises(Suspended):
        current_job().step("other", seen.append, "done")
    return "not true"


def test_swallowed_suspension_suspends_all_the_same_and_is_logged():
    job = run(swallows_all)
    assert job.status == "SCHEDULED"
    assert job.return_value is None
    assert seen == ["swallowed"]
    assert "Suspended was swallowed at" in job.progress.log
    assert "test_sleeping.py" in job.progress.log


@pytest.mark.parametrize(
    ("name", "duration", "told"),
    [
        ("", 1, "1 to 200 characters"),
        ("x" * 300, 1, "1 to 200 characters"),
        ("nap", -1, "between 0 s and 100 years"),
        ("nap", "soon", "must be seconds or a timedelta"),
        ("nap", datetime.max.replace(tzinfo=UTC), "a moment from 1970 to 9998"),
        ("nap", datetime.min.replace(tzinfo=UTC), "a moment from 1970 to 9998"),
    ],
)
def test_bad_sleep_fails_the_job(name, duration, told):
    job = done(lambda job: job.sleep(name, duration))
    assert job.status == "FAILED"
    assert told in job.reason


def test_sleep_in_a_transaction_is_refused_with_the_cure():
    job = done(transaction.atomic(lambda job: job.sleep("nap", 1)))
    assert job.status == "FAILED"
    assert "Call it outside" in job.reason


def test_sleep_in_an_atomic_task_is_refused():
    job = done(lambda job: job.sleep("nap", 1), bodies.atomic)
    assert (job.status, "without atomic=True" in job.reason) == ("FAILED", True)


def test_sleep_inside_a_step_is_refused():
    job = done(lambda job: job.step("outer", lambda: job.sleep("nap", 1)))
    assert job.status == "FAILED"
    assert "inside of step 'outer'" in job.reason


def test_name_of_a_step_cannot_be_that_of_a_sleep():
    job = done(lambda job: (job.step("nap", int), job.sleep("nap", 1)))
    assert job.status == "FAILED"
    assert "Give each call a name of its own" in job.reason


def test_coroutine_sleeps():
    async def async_nap(job):
        await job.asleep("nap", DAY)
        return "awake"

    job = done(async_nap, bodies.coroutine)
    assert job.status == "SCHEDULED"
    job.run_now()
    goes_on(job)
    assert (job.status, job.return_value) == ("SUCCESSFUL", "awake")


def test_sleeping_job_leaves_its_lock_to_the_next():
    def first_sleeps(job):
        if job.id == first.pk:
            job.sleep("nap", DAY)

    first = enqueued(first_sleeps, bodies.locked)
    second = done(first_sleeps, bodies.locked)
    first.refresh_from_db()
    assert (first.status, second.status) == ("SCHEDULED", "SUCCESSFUL")


def test_step_that_returns_jobs_gives_their_ids():
    def enqueues_in_steps(job):
        one = job.step("one", enqueue, nap, 1)
        many = job.step("many", lambda: [enqueue(nap, 1), enqueue(nap, 2)])
        return [one, *many]

    job = done(enqueues_in_steps)
    others = Job.objects.exclude(pk=job.pk).order_by("pk")
    assert job.return_value == list(others.values_list("pk", flat=True))


def test_wait_beyond_the_most_steps_is_refused_where_it_is_the_first_call():
    def body(job):
        if job.attempt == 1:
            execute(
                "INSERT INTO pgjobs_step (job_id, life, name, attempt, finished_at)"
                f" SELECT {job.id}, 1, number, 1, now()"
                f" FROM generate_series(1, {MOST_STEPS}) AS number"
            )
            raise ArithmeticError
        job.wait_for("one too many", bool)

    job = done(body)
    assert (job.status, "is one too many" in job.reason) == ("FAILED", True)
