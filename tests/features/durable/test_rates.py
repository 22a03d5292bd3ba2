"""Rates: to go on after a sleep or wait is no start; to begin once more is one."""

import pytest

from pgjobs import task
from pgjobs.models import Job, Rate
from tests.actors import Hand, admit
from tests.features.durable import bodies
from tests.features.durable.bodies import done, goes_on
from tests.processes import shared_queue

pytestmark = shared_queue


@task(rate="1/hour", max_attempts=5, backoff=lambda failures: 0)
def rated():
    return bodies.body(bodies.current_job())


def asks(job):
    return job.wait_for("question", str)


def sleeps(job):
    job.sleep("nap", 3_600)


def state(job: Job) -> tuple[str, str | None]:
    job.refresh_from_db()
    return job.status, job.waiting_for


def test_job_goes_on_although_its_rate_lets_none_start():
    job = done(asks, rated)
    assert state(job) == ("WAITING", "answer")
    assert job.answer("question", "yes")
    assert goes_on(job).return_value == "yes"


def test_job_that_has_slept_goes_on_although_its_rate_lets_none_start():
    job = done(sleeps, rated)
    assert job.run_now()
    assert goes_on(job).status == "SUCCESSFUL"


def test_job_goes_on_again_and_again():
    def asks_twice(job):
        return job.wait_for("first", str) + job.wait_for("second", str)

    job = done(asks_twice, rated)
    for name in ("first", "second"):
        assert state(job) == ("WAITING", "answer")
        job.answer(name, name)
        goes_on(job)
    assert job.return_value == "firstsecond"


def test_stretches_take_no_start_from_others():
    def asks_thrice(job):
        return [job.wait_for(f"{number}", str) for number in range(3)]

    twice = task(rate="2/hour", name="durable.rated_twice")(rated.function)
    job = done(asks_thrice, twice)
    for number in range(3):
        assert job.answer(f"{number}", "yes")
        goes_on(job)
    assert job.status == "SUCCESSFUL"
    other = done(lambda job: "began", twice)
    assert (other.status, other.return_value) == ("SUCCESSFUL", "began")
    assert state(done(lambda job: "began", twice)) == ("WAITING", "rate")


@pytest.mark.parametrize("is_retried", [False, True])
def test_job_that_fails_after_it_went_on_waits_for_its_turn(is_retried):
    def fails(job):
        job.wait_for("question", str)
        raise ValueError

    job = done(fails, rated.using(max_attempts=1) if is_retried else rated)
    job.answer("question", "yes")
    goes_on(job)
    if is_retried:
        assert job.status == "FAILED"
        job.retry()
    assert state(goes_on(job)) == ("WAITING", "rate")
    assert job.keys["rate_key"] == rated.name
    assert "rate_aside" not in job.keys


def test_successor_waits_for_its_turn():
    def goes_on_as_another(job):
        job.wait_for("question", str)
        job.continue_as()

    job = done(goes_on_as_another, rated)
    job.answer("question", "yes")
    goes_on(job)
    successor = job.newest()
    assert successor.pk != job.pk
    assert state(successor) == ("WAITING", "rate")


@pytest.mark.parametrize("delay", [0, 600])
def test_job_that_is_released_before_it_goes_on_gives_no_place_back(delay):
    twice = rated.using(rate="2/hour", rate_key="twice")
    job = done(asks, twice)
    job.answer("question", "yes")
    hand = Hand("one")
    (claimed,) = hand.claim(1)
    twice.enqueue()
    assert hand.claim(1), "another job starts later"
    hand.set_back(claimed, "RELEASE", delay=delay, has_begun=False)
    admit()
    assert sum(Rate.objects.get(key="twice").counts) == 2


def test_job_that_is_released_before_it_goes_on_goes_on_all_the_same():
    job = done(asks, rated)
    job.answer("question", "yes")
    hand = Hand("one")
    (claimed,) = hand.claim(1)
    hand.set_back(claimed, "RELEASE", has_begun=False)
    assert goes_on(job).return_value == "yes"
