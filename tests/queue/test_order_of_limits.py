"""Jobs of one limit are admitted in their order, whatever limit each carries."""

import pytest

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job
from pgjobs.reports.obstacles import obstacles
from tests.actors import Hand, admit, stored_statuses
from tests.processes import shared_queue
from tests.tasks import noop

pytestmark = shared_queue


@pytest.fixture(autouse=True)
def hand():
    return Hand()


def allowing(number: int, **options):
    return noop.using(limit_key="key", max_running=number, **options)


def enqueue_and_admit(*numbers: int) -> list[Job]:
    """Enqueue jobs that allow so many at a time, each before an admission."""
    jobs = []
    for number in numbers:
        jobs.append(enqueue(allowing(number)))
        admit(sweeps=False)
    return jobs


def test_older_job_with_a_smaller_limit_is_not_overtaken_by_a_stream_of_others(hand):
    enqueue_and_admit(5, 5, 1)
    first, second = hand.claim(2)
    enqueue_and_admit(5)
    hand.succeed(first)
    enqueue_and_admit(5)
    assert stored_statuses()[2:] == ["WAITING", "WAITING", "WAITING"]
    hand.succeed(second)
    admit(sweeps=False)
    assert stored_statuses()[2:] == ["READY", "READY", "READY"]


@pytest.mark.parametrize("obstacle", ["lock", "predecessor"])
def test_job_that_another_obstacle_has_held_up_does_not_overtake(obstacle):
    first = enqueue(noop.using(lock="door"))
    enqueue_and_admit(2, 1)
    how = {"lock": "door"} if obstacle == "lock" else {"after": first}
    enqueue(allowing(5, **how))
    admit(sweeps=False)
    first.succeed()
    admit(sweeps=False)
    assert stored_statuses() == ["SUCCESSFUL", "READY", "WAITING", "WAITING"]
    assert Job.objects.latest("pk").waiting_for == "limit"


def test_all_that_fit_behind_a_job_with_a_smaller_limit_are_admitted_with_it():
    (first, *_) = enqueue_and_admit(1, 1, 3, 3, 3)
    assert stored_statuses() == ["READY", *["WAITING"] * 4]
    first.cancel()
    admit(sweeps=False)
    assert stored_statuses() == ["CANCELLED", "READY", "READY", "READY", "WAITING"]


def test_job_that_stands_behind_one_that_waits_fits_as_soon_as_that_is_gone():
    (_, second, _) = enqueue_and_admit(5, 1, 5)
    assert stored_statuses() == ["READY", "WAITING", "WAITING"]
    second.cancel()
    admit(sweeps=False)
    assert stored_statuses() == ["READY", "CANCELLED", "READY"]


def test_job_of_higher_priority_passes_before_the_first_in_line():
    enqueue_and_admit(5, 1)
    enqueue(allowing(5, priority=1))
    admit(sweeps=False)
    assert stored_statuses() == ["READY", "WAITING", "READY"]


def test_jobs_that_arrive_together_are_admitted_in_their_order():
    enqueue_many([allowing(number).bind() for number in (3, 1, 3, 3)])
    admit(sweeps=False)
    assert stored_statuses() == ["READY", "WAITING", "WAITING", "WAITING"]


def test_older_job_that_comes_back_is_admitted_before_younger_ones_in_line(hand):
    enqueue_and_admit(2, 2)
    enqueue_and_admit(1, 2)
    first, second = hand.claim(2)
    hand.set_back(first, "RETRY")
    hand.succeed(second)
    admit(sweeps=False)
    assert stored_statuses() == ["READY", "SUCCESSFUL", "WAITING", "WAITING"]


def test_job_that_is_held_up_by_one_with_a_smaller_limit_says_so():
    (*_, last) = enqueue_and_admit(5, 1, 5)
    now = obstacles("default", [last.pk])[last.pk]
    assert (now.waiting_for, now.max_running) == ("limit", 1)
