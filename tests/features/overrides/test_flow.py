"""Limits and rates that operators change, for jobs that wait and for new ones."""

from math import inf
from time import monotonic
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.db import IntegrityError
from django.utils import timezone

from pgjobs import enqueue_many
from pgjobs.features.overrides.chore import HoldPaused
from pgjobs.features.overrides.queue import Declared, Wish, set_override
from pgjobs.models import Override, Rate, TaskDefinition
from pgjobs.queue.admitting import BEGINNING, Position
from pgjobs.reports.reasons import reasons
from pgjobs.worker.upkeep.admission import Admitting
from tests import tasks
from tests.actors import Hand, admit, execute, pass_time, session
from tests.processes import (
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)

pytestmark = shared_queue

LIMITED = tasks.noop.using(max_running=3, limit_key="mail")
RATED = tasks.noop.using(rate="4/minute", rate_key="mail")
PACED = tasks.noop.using(rate="60/minute", burst=1, rate_key="mail")


def override(kind: str = "task", key: str = "tests.noop", **wishes) -> None:
    assert set_override("default", kind, key, Wish(**wishes), "ada", "page")


def claims(hand: Hand) -> int:
    """Return how many jobs start now."""
    admit()
    return len(hand.claim(100))


@pytest.mark.parametrize("of", [("task", "tests.noop"), ("limit", "mail")])
def test_limit_is_lowered_and_raised_for_jobs_that_wait_already(of):
    hand = Hand()
    override(*of, max_running=1)
    jobs = enqueue_many([LIMITED.bind() for _ in range(10)])
    assert claims(hand) == 1
    why = reasons("default", [type(jobs[1]).objects.get(pk=jobs[1].pk)])[jobs[1].pk]
    assert why.text == "waits until fewer than 1 job of its limit runs"
    override(*of, max_running=5)
    assert claims(hand) == 4
    assert claims(hand) == 0
    override(*of)
    assert claims(hand) == 0  # five run, and the code allows three


def test_override_of_the_key_is_stronger_than_that_of_the_task():
    hand = Hand()
    override(max_running=5)
    override("limit", "mail", max_running=2)
    enqueue_many([LIMITED.bind() for _ in range(10)])
    assert claims(hand) == 2


def test_task_without_a_limit_is_not_limited_by_an_override():
    hand = Hand()
    override(max_running=1, rate="1/minute")
    enqueue_many([tasks.noop.bind() for _ in range(3)])
    assert claims(hand) == 3


@pytest.mark.parametrize("of", [("task", "tests.noop"), ("rate", "mail")])
def test_lowered_rate_counts_the_starts_already_made(of):
    hand = Hand()
    enqueue_many([RATED.bind() for _ in range(20)])
    assert claims(hand) == 4
    override(*of, rate="5/hour")
    assert claims(hand) == 1
    pass_time(120)
    assert claims(hand) == 0
    pass_time(3_600)
    assert claims(hand) == 5
    pass_time(600)
    assert claims(hand) == 0


@pytest.mark.parametrize("of", [("task", "tests.noop"), ("rate", "mail")])
def test_starts_that_waited_for_nothing_count_for_a_longer_period(of):
    hand = Hand()
    override(*of, rate="3/hour")
    for _ in range(3):
        RATED.enqueue()
        assert claims(hand) == 1
        pass_time(120)  # two of the periods that the code declares
    RATED.enqueue()
    assert claims(hand) == 0


def test_raised_rate_lets_jobs_go_that_wait():
    hand = Hand()
    enqueue_many([RATED.bind() for _ in range(20)])
    assert claims(hand) == 4
    override(rate="10/minute")
    assert claims(hand) == 6
    assert claims(hand) == 0
    override()
    assert claims(hand) == 0


def test_paced_rate_stays_paced():
    hand = Hand()
    override(rate="30/minute")
    enqueue_many([PACED.bind() for _ in range(5)])
    assert claims(hand) == 1
    pass_time(1.2)
    assert claims(hand) == 0
    pass_time(1.0)
    assert claims(hand) == 1


def test_rate_remembers_its_starts_for_the_longest_period():
    Hand()
    RATED.enqueue()
    hand = Hand("other")
    assert claims(hand) == 1
    admit()
    override("rate", "mail", rate="5/hour")
    assert Rate.objects.get().longest == 3_600


def test_worker_lets_jobs_go_at_once_when_a_limit_is_raised(tmp_path):
    path = str(tmp_path / "held")
    limited = tasks.hold.using(max_running=1, limit_key="mail")
    with running_worker(slots=4, poll=600):
        first = limited.enqueue(path)
        wait_for_status(first, "RUNNING")
        second = limited.enqueue(path)
        wait_for_status(second, "WAITING")
        override("limit", "mail", max_running=2)
        try:
            wait_for_status(second, "RUNNING", timeout=10)
        finally:
            tasks.let_go(path)


def test_worker_lets_jobs_go_at_once_when_a_lower_limit_ends(tmp_path):
    path = str(tmp_path / "held")
    limited = tasks.hold.using(max_running=2, limit_key="mail")
    with running_worker(slots=4, poll=600):
        until = timezone.now() + timezone.timedelta(seconds=2)
        override("limit", "mail", max_running=1, until=until)
        first = limited.enqueue(path)
        wait_for_status(first, "RUNNING")
        second = limited.enqueue(path)
        wait_for(lambda: not Override.objects.exists(), "its time is over")
        try:
            wait_for_status(second, "RUNNING", timeout=10)
        finally:
            tasks.let_go(path)


def test_end_of_its_time_lets_the_worker_look_at_all_lines_at_once():
    until = timezone.now() + timezone.timedelta(hours=1)
    override("limit", "mail", max_running=1, until=until)
    admitting = Admitting()
    admitting.position = Position("queue", "line", 7)
    admitting.sweeps_all, admitting.sweeping.due, admitting.due = False, inf, inf
    held = HoldPaused(admitting)
    connection = cast(Any, SimpleNamespace(execute=execute))
    held.run(connection)
    assert not admitting.is_due(monotonic())
    Override.objects.update(until=timezone.now())
    held.run(connection)
    assert not Override.objects.exists()
    assert admitting.is_due(monotonic())
    assert admitting.begin(monotonic()) == (BEGINNING, True)
    admitting.sweeps_all = False
    held.run(connection)
    assert not admitting.sweeps_all


def test_workers_hear_of_a_limit_that_is_raised_or_lifted():
    with session() as ear:
        ear.listen("pgjobs_admission")
        override("limit", "mail", max_running=1)
        assert ("pgjobs_admission", "sweep") in ear.heard()
        override("limit", "mail")
        assert ("pgjobs_admission", "sweep") in ear.heard()


# What the code declares


def test_definition_says_what_can_be_changed():
    plain = TaskDefinition(name="a", options={})
    assert Declared.of(plain) == (None, None, None)
    assert "declares no rate" in str(Declared.of(plain).why_not(Wish(rate="1/hour")))
    assert "declares no max_running" in str(
        Declared.of(plain).why_not(Wish(max_running=1))
    )
    keys = {"max_running": 3, "rate_interval": 0.6, "rate_burst": 100}
    rated = TaskDefinition(name="a", options={"keys": keys})
    assert Declared.of(rated) == (None, 3, "100/minute")
    assert Declared.of(rated).why_not(Wish(max_running=1, rate="1/hour")) is None


def test_override_names_its_rate_as_the_code_does():
    assert Override(rate_number=5, rate_seconds=3_600).rate == "5/hour"
    assert Override().rate is None


@pytest.mark.parametrize(
    "numbers",
    [
        {"rate_number": 5},
        {"rate_seconds": 60},
        {"rate_number": 5, "rate_seconds": float("nan")},
        {"max_running": 0},
    ],
)
def test_override_of_half_a_rate_or_of_no_number_is_refused(numbers):
    with pytest.raises(IntegrityError, match="pgjobs_override_numbers"):
        Override.objects.create(kind="task", key="tests.noop", **numbers)
