"""Many idle workers do not all ask what there is to do: one tells the others."""

import time
from collections.abc import Callable
from math import inf
from time import monotonic

import pytest
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from pgjobs.models import Event, Job, Rate, Schedule
from pgjobs.queue import upkeep
from pgjobs.worker import Loop
from pgjobs.worker.upkeep.survey import BELIEF, FIRST, LATER, LONGEST_DELAY
from tests.actors import (
    Hand,
    execute,
    forget_a_job_in_line,
    hours,
    job_that_is,
    session,
)
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
    """Let a worker ask what there is to do, and wait until it sleeps again."""
    loop.upkeep.survey.due = 0
    loop.bell.ring()
    wait_for(lambda: loop.upkeep.survey.due and loop.listener.alarm, "it has asked")


def living(name: str) -> Hand:
    """Return a worker that counts as alive for as long as the test lasts."""
    leased = timezone.now() + hours(1)
    return Hand(name, heartbeat_interval=600, lease_until=leased)


def tell(hand: Hand) -> None:
    assert upkeep.chores(execute, hand.id, looks=True, tells=True).is_idle


def told_to(loop: Loop, seconds: float | None = None, **changes) -> str:
    """Return what another worker tells, now or so long after this one has asked."""
    survey = loop.upkeep.survey
    found = survey.found
    assert found is not None
    if seconds is None:
        seconds = monotonic() - survey.asked_at
    values = {
        "installation": found.installation,
        "worker_id": 0,
        "at": int(1_000 * (found.at + seconds)) + 1,
        "next_fire": -1,
        "next_due": -1,
        **changes,
    }
    return " ".join(str(each) for each in values.values())


# Who tells


def test_worker_that_finds_nothing_to_do_tells_the_others():
    asking, _ = living("asking"), living("other")
    with session() as other:
        other.listen("pgjobs_survey")
        found = upkeep.chores(execute, asking.id, looks=True, tells=True)
        assert found.is_idle
        [(channel, payload)] = other.heard()
    assert channel == "pgjobs_survey"
    told = upkeep.read_survey(payload)
    assert told == (found.installation, asking.id, told.at, None, None)
    assert found.at - 0.002 < told.at <= found.at


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
    assert 3_500 < told.next_due <= 3_600
    assert 7_100 < told.next_fire <= 7_200


def leave_a_job_of_the_dead() -> None:
    dead = Hand("dead")
    job_that_is("READY")
    assert dead.claim()
    dead.vanish()


def leave_a_silent_worker() -> None:
    Hand("silent").fall_silent(3_600)


def leave_an_expired_job() -> None:
    """It is not due yet, and will not run."""
    job_that_is("SCHEDULED", expires_at=timezone.now() - hours(1))


def leave_a_note() -> None:
    execute("INSERT INTO pgjobs_note DEFAULT VALUES")


def leave_a_rate_that_opens() -> None:
    long_ago = timezone.now() - hours(1)
    Rate.objects.create(key="a", full_at=long_ago, opens_at=long_ago)


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
        forget_a_job_in_line,
        leave_an_expired_job,
        leave_a_note,
        leave_a_rate_that_opens,
        leave_an_overdue_job,
        leave_a_schedule_due,
        lambda: job_that_is("READY"),
        lambda: Event.objects.create(name="x", payload={}, handlers=0),
    ],
)
def test_worker_that_finds_something_to_do_notifies_no_other(
    leave: Callable[[], object],
):
    asking, _ = living("asking"), living("other")
    leave()
    with session() as other:
        other.listen("pgjobs_survey")
        assert not upkeep.chores(execute, asking.id, looks=True, tells=True).is_idle
        assert other.heard() == []


def test_worker_that_others_may_take_for_dead_notifies_no_other():
    """It would keep them from asking, and so from its own jobs."""
    asking, _ = living("asking"), living("other")
    asking.fall_silent(7_200)
    with session() as other:
        other.listen("pgjobs_survey")
        assert not upkeep.chores(execute, asking.id, looks=True, tells=True).is_idle
        assert other.heard() == []


@pytest.mark.parametrize(
    ("others", "looks", "tells"), [(0, True, True), (1, False, True), (1, True, False)]
)
def test_worker_notifies_no_other_if_alone_or_without_a_look_or_if_told_just_now(
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
    survey, before = loop.upkeep.survey, monotonic()
    earliest, latest = (each * survey.interval for each in LATER)
    tell(living("teller"))
    wait_for(lambda: survey.due > before + earliest, "it is told")
    assert survey.due <= monotonic() + latest


@pytest.mark.listening
def test_worker_that_is_told_again_and_again_asks_nothing(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 2, "LEASE_DURATION": 60}
    with running_worker(queues=("none",), poll=600) as loop:
        ask(loop)
        survey, teller = loop.upkeep.survey, living("teller")
        until = monotonic() + 5 * survey.interval
        with statements_of_workers() as executed:
            while monotonic() < until and "loop chores" not in executed:
                # Half as long as it would sleep: a busy machine may be late.
                before = survey.heard_at
                tell(teller)
                wait_for(lambda before=before: survey.heard_at > before, "it hears")
                time.sleep(survey.interval / 4)
        asked = executed.count("loop chores")
    assert not asked


@pytest.mark.listening
def test_worker_that_was_told_asks_by_itself_when_the_other_falls_silent(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.5, "LEASE_DURATION": 60}
    with running_worker(queues=("none",), poll=600) as loop:
        ask(loop)
        survey, before = loop.upkeep.survey, loop.upkeep.survey.heard_at
        tell(living("teller"))
        wait_for(lambda: survey.heard_at > before, "it is told")
        asked_at = survey.asked_at
        wait_for(lambda: survey.asked_at > asked_at, "it asks by itself")


@pytest.mark.listening
def test_job_of_the_worker_that_asked_for_all_is_taken_back_after_its_death(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.5, "LEASE_DURATION": 60}
    with running_worker(queues=("none",), poll=600) as loop:
        ask(loop)
        survey, before = loop.upkeep.survey, loop.upkeep.survey.heard_at
        teller = living("teller")
        tell(teller)
        wait_for(lambda: survey.heard_at > before, "it is told")
        job = job_that_is("READY")
        assert teller.claim()
        teller.vanish()
        wait_for(Job.objects.filter(pk=job.pk, status="READY", crashes=1).exists)


def test_other_workers_ask_soon_after_the_one_that_asked_has_died():
    heartbeats_to_notice, survey_intervals = 1.3, max(LATER)
    assert heartbeats_to_notice + 0.4 * survey_intervals < 2, "within two heartbeats"
    assert max(FIRST) < min(LATER), "mostly the same worker asks"


@pytest.mark.listening
def test_worker_that_has_told_asks_first(loop):
    living("other")
    ask(loop)
    survey = loop.upkeep.survey
    earliest, latest = (each * survey.interval for each in FIRST)
    assert earliest <= survey.due - survey.asked_at
    assert survey.due - monotonic() <= latest


@pytest.mark.listening
def test_worker_that_was_told_just_now_notifies_no_other(loop):
    living("other")
    ask(loop)
    survey = loop.upkeep.survey
    survey.hear(told_to(loop))
    with session() as other:
        other.listen("pgjobs_survey")
        ask(loop)
        assert other.heard() == []
        survey.heard_at = -inf
        ask(loop)
        assert len(other.heard()) == 1


def test_worker_that_cannot_listen_notifies_no_other(settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(queues=("none",), poll=600, listen=False) as loop:
        living("other")
        with session() as other:
            other.listen("pgjobs_survey")
            ask(loop)
            found = loop.upkeep.survey.found
            assert found is not None, "there is nothing to do"
            assert found.workers > 1
            assert other.heard() == []


def test_worker_that_has_something_to_do_believes_nothing(loop):
    ask(loop)
    told = told_to(loop)
    job_that_is("READY")
    ask(loop)
    before = loop.upkeep.survey.due
    loop.upkeep.survey.hear(told)
    assert loop.upkeep.survey.due == before


def test_worker_asks_now_and_then_whatever_it_is_told(loop):
    ask(loop)
    survey = loop.upkeep.survey
    shortest, longest = (each * survey.interval for each in BELIEF)
    assert shortest <= survey.believes_until - survey.asked_at <= longest
    before, survey.believes_until = survey.due, monotonic()
    survey.hear(told_to(loop))
    assert survey.due == before
    assert survey.heard_at >= survey.believes_until, "so it need not tell the others"
    survey.believes_until = monotonic() + 60
    survey.hear(told_to(loop))
    assert survey.due != before


@pytest.mark.parametrize(
    "why",
    [
        {"worker_id": "itself"},
        {"installation": 1},  # in another schema of the same database
        {"seconds": -0.5},  # asked before it has asked by itself
        {"seconds": 300},  # the server's clock was set
    ],
)
def test_worker_does_not_believe_what_does_not_concern_it(loop, why):
    ask(loop)
    if why == {"worker_id": "itself"}:
        why = {"worker_id": loop.id}
    survey, before = loop.upkeep.survey, loop.upkeep.survey.due
    survey.hear(told_to(loop, **why))
    assert survey.due == before


def test_worker_does_not_believe_what_it_hears_late(loop):
    ask(loop)
    survey, before = loop.upkeep.survey, loop.upkeep.survey.due
    told = told_to(loop)
    survey.asked_at -= LONGEST_DELAY * survey.interval + 1  # it was frozen meanwhile
    survey.hear(told)
    assert survey.due == before


@pytest.mark.listening
@pytest.mark.parametrize("soon", ["next_due", "next_fire"])
def test_sleeping_worker_that_is_told_when_something_is_due_does_it_in_time(loop, soon):
    ask(loop)
    schedules = loop.upkeep["schedules"]
    assert min(schedules.due, loop.poll_schedule.promote_at) > monotonic() + 60
    name = "promote" if soon == "next_due" else "next_fire"
    with statements_of_workers() as executed, session() as other:
        told = told_to(loop, **{soon: 300})
        other.execute(f"NOTIFY pgjobs_survey, '{told}'")
        wait_for(lambda: f"loop {name}" in executed, "it does it")


def test_worker_told_of_no_job_still_looks_if_it_was_woken(loop):
    ask(loop)
    loop.poll_schedule.wake()
    loop.upkeep.survey.hear(told_to(loop))
    assert loop.upkeep.survey.heard_at > 0
    assert loop.poll_schedule.deserves_look(is_idle=True, now=monotonic())


def test_worker_that_is_told_puts_off_no_chore_that_is_due(loop):
    ask(loop)
    for name in ("expire", "schedules"):
        chore = loop.upkeep[name]
        chore.due, chore.backoff.retry_at = 0.0, inf  # it would run at once
        loop.upkeep.survey.hear(told_to(loop))
        assert chore.due == 0.0


def test_worker_that_is_told_late_counts_from_when_it_was_asked(loop):
    ask(loop)
    survey, schedules = loop.upkeep.survey, loop.upkeep["schedules"]
    told = told_to(loop, next_fire=30_000)
    survey.asked_at -= 60  # and so was what it is told
    survey.hear(told)
    assert schedules.due <= monotonic()
    assert survey.due <= monotonic() - 60 + max(LATER) * survey.interval


def test_what_a_worker_is_told_does_not_put_off_its_pruning(loop):
    """Any role of the database could prevent it."""
    ask(loop)
    turns, due = loop.upkeep["prune"].turns, loop.upkeep["prune"].due
    loop.upkeep.survey.hear(told_to(loop))
    assert loop.upkeep.survey.heard_at > 0
    assert loop.upkeep["prune"].turns == turns
    assert loop.upkeep["prune"].due == due


def test_worker_that_must_look_everywhere_keeps_its_poll(loop):
    ask(loop)
    poll_at = loop.poll_schedule.poll_at
    survey = loop.upkeep.survey
    survey.view = survey.view._replace(looks_for_jobs=lambda: False)
    loop.upkeep.survey.hear(told_to(loop))
    assert loop.poll_schedule.poll_at == poll_at
    survey.view = survey.view._replace(looks_for_jobs=lambda: True)
    loop.upkeep.survey.hear(told_to(loop))
    assert loop.poll_schedule.poll_at != poll_at


@given(st.text() | st.from_regex(upkeep.SURVEY, fullmatch=True))
def test_any_text_may_be_notified(payload):
    told = upkeep.read_survey(payload)
    if told is not None:
        seconds = told.next_fire, told.next_due, told.at
        assert all(each is None or 0 <= each < 1e12 for each in seconds)


@pytest.mark.listening
def test_notification_that_says_nothing_changes_nothing(loop):
    ask(loop)
    survey = loop.upkeep.survey
    before, echoed = survey.due, loop.heartbeat.last_heard
    with session() as other:
        for payload in ("", "nan", "1 2", "1 2 3 -1 -1 -1", "1 2 3 1e9 inf"):
            other.execute(f"NOTIFY pgjobs_survey, '{payload}'")
    wait_for(lambda: loop.heartbeat.last_heard > echoed, "it has heard them")
    assert survey.due == before
