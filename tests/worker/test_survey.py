"""Many idle workers do not all ask what there is to do: one tells the others."""

from collections.abc import Callable
from math import inf
from time import monotonic

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from pgjobs.models import Event, Job, Schedule, Worker
from pgjobs.queue import upkeep
from pgjobs.worker import Loop
from pgjobs.worker.upkeep.survey import BELIEF, FIRST, LATER
from tests.actors import Hand, execute, hours, job_that_is, session
from tests.processes import (
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_pass,
)

pytestmark = [
    shared_queue,
    pytest.mark.usefixtures("no_schedules", "no_subscriptions"),
]


@pytest.fixture
def loop(settings):
    """A worker that runs nothing and has pauses of minutes between its chores."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(queues=("none",), poll=600) as loop:
        wait_for_pass(loop)
        yield loop


def ask(loop: Loop) -> None:
    """Let a worker ask what there is to do, and wait for the answer."""
    loop.upkeep.survey.due = 0
    loop.bell.ring()
    wait_for(lambda: loop.upkeep.survey.due, "it has asked")


def living(name: str) -> Hand:
    """Return a worker that nobody takes for dead while the test lasts."""
    leased = timezone.now() + hours(1)
    return Hand(name, heartbeat_interval=600, lease_until=leased)


def told_by(worker_id: int, *, fire: int = -1, due: int = -1) -> str:
    return f"{worker_id} 2 {fire} {due}"


# Who tells


def test_worker_that_finds_nothing_to_do_tells_the_others():
    asking, _ = living("asking"), living("other")
    with session() as other:
        other.listen("pgjobs_survey")
        found = upkeep.chores(execute, asking.id, looks=True, tells=True)
        assert found.is_idle
        [(channel, payload)] = other.heard()
    assert channel == "pgjobs_survey"
    assert upkeep.read_survey(payload) == (asking.id, found)


def test_worker_tells_when_there_will_be_something_to_do():
    asking, _ = living("asking"), living("other")
    job_that_is("SCHEDULED", run_after=timezone.now() + hours(1))
    Schedule.objects.create(name="s", task="tests.noop", every=hours(2))
    with session() as other:
        other.listen("pgjobs_survey")
        upkeep.chores(execute, asking.id, looks=True, tells=True)
        [(_, payload)] = other.heard()
    told = upkeep.read_survey(payload)
    assert told is not None
    assert 3_500 < told.found.next_due <= 3_600
    assert 7_100 < told.found.next_fire <= 7_200


def leave_a_job_of_the_dead() -> None:
    dead = Hand("dead")
    job_that_is("READY")
    assert dead.claim()
    dead.vanish()


def leave_a_silent_worker() -> None:
    silent = Hand("silent")
    long_ago = timezone.now() - hours(1)
    Worker.objects.filter(pk=silent.id).update(
        heartbeat_at=long_ago, lease_until=long_ago
    )


def leave_a_job_in_line() -> None:
    execute("ALTER TABLE pgjobs_job DISABLE TRIGGER USER")
    Job.objects.create(
        task="tests.noop",
        status="WAITING",
        waiting_for="lock",
        keys={"lock": "a", "is_ordered": True},
        line="lock a",
    )
    execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")


def leave_an_expired_job() -> None:
    job_that_is("READY", expires_at=timezone.now() - hours(1))


def leave_an_overdue_job() -> None:
    job = job_that_is("SCHEDULED", run_after=timezone.now() + hours(1))
    Job.objects.filter(pk=job.pk).update(run_after=timezone.now() - hours(1))


def leave_a_schedule_due() -> None:
    made = Schedule.objects.create(name="s", task="tests.noop", every=hours(1))
    Schedule.objects.filter(pk=made.pk).update(next_run_at=timezone.now() - hours(1))


@pytest.mark.parametrize(
    "leave",
    [
        leave_a_job_of_the_dead,
        leave_a_silent_worker,
        leave_a_job_in_line,
        leave_an_expired_job,
        leave_an_overdue_job,
        leave_a_schedule_due,
        lambda: job_that_is("READY"),
        lambda: Event.objects.create(name="x", payload={}, handlers=0),
    ],
)
def test_worker_that_finds_something_to_do_tells_nobody(leave: Callable[[], object]):
    asking, _ = living("asking"), living("other")
    leave()
    with session() as other:
        other.listen("pgjobs_survey")
        assert not upkeep.chores(execute, asking.id, looks=True, tells=True).is_idle
        assert other.heard() == []


def test_worker_that_others_may_take_for_dead_tells_nobody():
    """It would keep them from asking, and so from its own jobs."""
    asking, _ = living("asking"), living("other")
    long_ago = timezone.now() - hours(1)
    Worker.objects.filter(pk=asking.id).update(
        heartbeat_at=long_ago, lease_until=long_ago
    )
    with session() as other:
        other.listen("pgjobs_survey")
        assert not upkeep.chores(execute, asking.id, looks=True, tells=True).is_idle
        assert other.heard() == []


@pytest.mark.parametrize(
    ("others", "looks", "tells"), [(0, True, True), (1, False, True), (1, True, False)]
)
def test_worker_tells_nobody_if_alone_or_without_a_look_or_if_told_just_now(
    others, looks, tells
):
    asking = living("asking")
    for each in range(others):
        living(f"other {each}")
    with session() as other:
        other.listen("pgjobs_survey")
        upkeep.chores(execute, asking.id, looks=looks, tells=tells)
        assert other.heard() == []


# Who believes it


@pytest.mark.listening
def test_worker_that_is_told_asks_later(loop):
    ask(loop)
    survey, teller = loop.upkeep.survey, living("teller")
    survey.due = monotonic() + 30
    before = monotonic()
    upkeep.chores(execute, teller.id, looks=True, tells=True)
    wait_for(lambda: survey.heard_at > before, "it is told")
    earliest, latest = (each * survey.interval for each in LATER)
    assert before + earliest < survey.due <= monotonic() + latest


@pytest.mark.listening
def test_worker_that_is_told_again_and_again_asks_nothing(loop):
    ask(loop)
    survey, teller = loop.upkeep.survey, living("teller")
    with statements_of_workers() as executed:
        for _ in range(5):
            survey.due = soon = monotonic() + 30
            upkeep.chores(execute, teller.id, looks=True, tells=True)
            wait_for(lambda soon=soon: survey.due > soon, "it is told")
    assert "loop chores" not in executed


def test_other_workers_ask_soon_after_the_one_that_asked_has_died():
    heartbeats_to_notice, survey_intervals = 1.3, max(LATER)
    assert heartbeats_to_notice + 0.4 * survey_intervals < 2, "within two heartbeats"
    assert max(FIRST) < min(LATER), "mostly the same worker asks"


def test_worker_that_has_something_to_do_believes_nothing(loop):
    job_that_is("READY", expires_at=timezone.now() - hours(1))
    survey = loop.upkeep.survey
    loop.upkeep.expiry.backoff.retry_at = inf
    ask(loop)
    before = survey.due
    survey.hear(told_by(0))
    assert survey.due == before
    assert not loop.upkeep.expiry.is_put_off


def test_worker_asks_now_and_then_whatever_it_is_told(loop):
    ask(loop)
    survey = loop.upkeep.survey
    assert survey.believes_until <= monotonic() + BELIEF * survey.interval
    survey.believes_until = monotonic()
    before = survey.due
    survey.hear(told_by(0))
    assert survey.due == before


def test_worker_does_not_believe_itself(loop):
    ask(loop)
    survey, before = loop.upkeep.survey, loop.upkeep.survey.due
    survey.hear(told_by(loop.id))
    assert survey.due == before


def test_worker_that_is_told_of_a_job_promotes_it_in_time(loop):
    ask(loop)
    begun = monotonic()
    loop.upkeep.survey.hear(told_by(0, due=1_500))
    assert loop.poll_schedule.promote_at <= monotonic() + 1.5
    loop.upkeep.survey.hear(told_by(0, fire=2_500))
    assert loop.poll_schedule.promote_at <= begun + 2.5
    assert loop.upkeep["schedules"].due <= monotonic() + 2.5


def test_worker_told_of_no_job_still_looks_if_it_was_woken(loop):
    ask(loop)
    loop.poll_schedule.wake()
    loop.upkeep.survey.hear(told_by(0))
    assert loop.poll_schedule.deserves_look(is_idle=True, now=monotonic())


@given(st.text() | st.from_regex(r"\A[0-9 -]*\Z"))
def test_any_text_may_be_notified(payload):
    told = upkeep.read_survey(payload)
    if told is not None:
        seconds = told.found.next_fire, told.found.next_due
        assert all(each is None or 0 <= each < 1e12 for each in seconds)


@pytest.mark.listening
def test_notification_that_says_nothing_changes_nothing(loop):
    ask(loop)
    survey = loop.upkeep.survey
    before, echoed = survey.due, loop.heartbeat.last_heard
    with session() as other:
        for payload in ("", "nan", "1 2", "1 2 -1 -1 -1", "-1 2 -1 -1", "1 2 1e9 inf"):
            other.execute(f"NOTIFY pgjobs_survey, '{payload}'")
    wait_for(lambda: loop.heartbeat.last_heard > echoed, "it has heard them")
    assert survey.due == before
