"""Deadlines: they bound the whole life of a job, with all its waits and attempts."""

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from pgjobs import current_job, task
from pgjobs.exceptions import InvalidTask, TaskTimeout
from pgjobs.features.durable import queue
from pgjobs.features.durable.chore import EndLives
from pgjobs.models import Job
from pgjobs.testing import run_jobs
from tests.actors import execute
from tests.features.durable import bodies
from tests.features.durable.bodies import goes_on
from tests.processes import running_worker, shared_queue, wait_for_status
from tests.support.declared import store_definitions

pytestmark = shared_queue
HOUR = timedelta(hours=1)
OVER = "The deadline of the job is over."
caught: list = []


@task(deadline=HOUR, max_attempts=5, backoff=lambda failures: 7200)
def bounded():
    return bodies.body(current_job())


@task(deadline=2, max_attempts=5)  # so that it begins on a busy machine, too
def short():
    try:
        sleep_on()
    except TaskTimeout as error:
        caught.append(error)
        raise


@task(deadline=HOUR)
async def bounded_coroutine():
    return await bodies.body(current_job())


def sleep_on() -> None:
    """Sleep where an exception of Python's reaches."""
    for _ in range(3_000):
        time.sleep(0.01)


def ends(job: Job) -> Job:
    """Do what a worker does when a deadline is over."""
    queue.end_lives(execute)
    job.refresh_from_db()
    return job


def done(body, task=bounded) -> Job:
    return bodies.done(body, task)


def seconds_left(job: Job) -> float | None:
    job.refresh_from_db()
    ends_at = job.keys.get("ends_at")
    return ends_at and round(ends_at - timezone.now().timestamp(), -1)


def pass_time(job: Job, seconds: float = 3600) -> None:
    execute(
        "UPDATE pgjobs_job SET keys = keys || jsonb_build_object("
        f"'ends_at', (keys -> 'ends_at')::numeric - {seconds}) WHERE id = {job.pk}"
    )


def raises(job):
    raise ArithmeticError


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (lambda job: job.wait_for("question", bool), "WAITING"),
        (lambda job: job.sleep("nap", HOUR * 48), "SCHEDULED"),
        (raises, "SCHEDULED"),
    ],
    ids=["waits", "sleeps", "backs off"],
)
def test_job_fails_when_its_deadline_is_over(body, status):
    job = done(body)
    assert job.status == status
    assert seconds_left(job) == 3600
    assert not queue.end_lives(execute)
    pass_time(job)
    ends(job)
    assert (job.status, job.reason) == ("FAILED", OVER)
    assert job.answer("question", True) is False


def test_job_that_has_not_begun_fails_too():
    bodies.body = lambda job: caught.append("ran")
    job = bounded.enqueue()
    pass_time(job)
    caught.clear()
    goes_on(job)
    assert (job.status, job.reason, caught) == ("FAILED", OVER, [])


def test_running_job_is_ended_by_a_time_limit_and_not_tried_again():
    caught.clear()
    job = short.enqueue()
    goes_on(job)
    assert (job.status, job.reason, job.attempts) == ("FAILED", OVER, 1)
    assert [type(error) for error in caught] == [TaskTimeout]


def test_running_job_is_left_to_its_worker():
    def body(job):
        pass_time(Job(pk=job.id))
        assert execute("SELECT pgjobs_end_lives(10, NULL, '{}')") == []
        return "done"

    assert done(body).status == "SUCCESSFUL"


def test_shorter_timeout_stays_the_limit_of_each_attempt():
    job = done(lambda job: sleep_on(), bounded.using(timeout=0.2))
    assert job.status == "SCHEDULED"
    assert "0.2 s" in job.reason


def test_coroutine_has_a_deadline():
    async def body(job):
        await job.await_for("question", bool)

    job = done(body, bounded_coroutine)
    assert (job.status, seconds_left(job)) == ("WAITING", 3600)
    pass_time(job)
    assert ends(job).reason == OVER


def test_time_counts_from_when_the_job_is_due():
    job = bounded.using(run_after=HOUR).enqueue()
    assert seconds_left(job) == 7200
    job.run_now()
    assert seconds_left(job) == 3600


def test_time_counts_from_the_end_of_the_predecessors():
    first = bodies.child.using(run_after=HOUR).enqueue(1)
    bodies.body = lambda job: job.wait_for("question", bool)
    job = bounded.using(after=first).enqueue()
    assert seconds_left(goes_on(job)) is None
    first.run_now()
    goes_on(job)
    ends(job)
    assert (job.status, seconds_left(job)) == ("WAITING", 3600)


@pytest.mark.parametrize("keep_steps", [True, False])
def test_each_retry_renews_the_deadline(keep_steps):
    job = done(lambda job: job.wait_for("question", bool))
    pass_time(job)
    ends(job)
    job.retry(keep_steps=keep_steps)
    assert seconds_left(job) == 3600
    assert goes_on(job).status == "WAITING"


def test_sql_makes_jobs_with_a_deadline():
    store_definitions()
    execute("SELECT pgjobs_enqueue('durable.bounded')")
    assert seconds_left(Job.objects.get()) == 3600


def test_job_with_a_lock_stays_admitted_when_its_life_begins():
    first = bodies.child.enqueue(1)
    bodies.body = lambda job: seconds_left(Job.objects.get(pk=job.id))
    job = bounded.using(after=first, lock="door", lock_mode="mutex").enqueue()
    assert goes_on(job).status == "SUCCESSFUL"


def test_junk_in_a_row_stops_nothing():
    for keys in ('{"deadline": "x"}', '{"deadline": 5, "ends_at": "x"}'):
        execute(f"INSERT INTO pgjobs_job (task, keys) VALUES ('tests.add', '{keys}')")
    second = Job.objects.latest("pk")
    assert queue.end_lives(execute) == [second.pk]  # a time that is none is over
    assert execute(f"SELECT {EndLives.asks}") == [(None,)]


def test_plain_job_has_no_keys():
    assert bodies.child.enqueue(1).keys is None


def test_worker_ends_a_life_in_time():
    bodies.body = lambda job: job.wait_for("question", bool)
    job = bounded.enqueue()
    with running_worker():
        wait_for_status(job, "WAITING")
        pass_time(job, 3599)
        wait_for_status(job, "FAILED")


def test_kit_lets_time_pass_to_the_deadline():
    bodies.body = lambda job: job.wait_for("question", bool)
    job = bounded.enqueue()
    run_jobs(until=HOUR * 2)
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", OVER)


@pytest.mark.parametrize("deadline", [0, -1, "soon", timedelta(0), float("inf")])
def test_bad_deadline_is_refused(deadline):
    with pytest.raises(InvalidTask, match="deadline"):
        task(deadline=deadline)(lambda: None)


def test_deadline_is_no_option_of_one_job():
    with pytest.raises(InvalidTask, match="deadline"):
        bounded.using(deadline=5)
