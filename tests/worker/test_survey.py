"""One worker asks for all what there is to do; when it is gone, another one does."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from math import inf
from time import monotonic

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pgjobs import enqueue
from pgjobs.models import Job, Worker
from pgjobs.queue import upkeep
from pgjobs.sql import statement
from pgjobs.worker import Loop
from tests.actors import (
    BEAT,
    Hand,
    Session,
    admit,
    execute,
    hours,
    job_that_is,
    session,
    survey,
)
from tests.processes import (
    SOON,
    WorkerThread,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_pass,
    wait_for_status,
)
from tests.tasks import hold, noop

pytestmark = [
    shared_queue,
    pytest.mark.usefixtures("no_schedules", "no_subscriptions"),
]

KEY = 4_567_890_123_456  # of a session lock
BRISK = {"HEARTBEAT_INTERVAL": 0.5, "LEASE_DURATION": 60}
SLOW = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}


def living(name: str, leads_for: float | None = None, **columns) -> Hand:
    """Return a worker that counts as alive for as long as the test lasts.

    `leads_for`: seconds for which it leads.
    """
    now = timezone.now()
    until = None if leads_for is None else now + timedelta(seconds=leads_for)
    own = {"heartbeat_interval": 600, "lease_until": now + hours(1), **columns}
    return Hand(name, leads_until=until, **own)


def others_lead(hand: Hand, leads: bool = False, execute=execute) -> bool:
    """Beat once; return whether that says that another worker leads."""
    parameters = {**vars(hand.row), **BEAT, "lease": 3_600, "leads": leads}
    return execute(statement("heartbeat"), parameters)[0][1]


def leading() -> set[int]:
    """Return the ids of the workers that lead."""
    found = Worker.objects.filter(leads_until__gt=timezone.now())
    return set(found.values_list("pk", flat=True))


@contextmanager
def holding(key: int) -> Iterator[Session]:
    with session() as process:
        process.execute("SELECT pg_advisory_lock(%(key)s)", {"key": key})
        yield process


def beat(loop: Loop) -> None:
    """Let a worker beat and take what it has learnt; return when it sleeps again."""
    loop.heartbeat.beat()
    loop.upkeep.survey.expect()
    loop.bell.ring()
    wait_for(lambda: loop.upkeep.survey.due and loop.bell.alarm, "it has heard it")


# What a heartbeat says


def test_heartbeat_says_that_another_worker_leads():
    leader, other = living("leader", 60), living("other")
    assert others_lead(other)
    assert not others_lead(leader, leads=True)


def test_heartbeat_says_so_also_if_the_leader_has_a_higher_number():
    """Or the upkeep would change hands at each start."""
    other, leader = living("other"), living("leader", 60)
    assert others_lead(other)
    assert not others_lead(leader, leads=True)


def test_of_two_that_lead_only_the_one_with_the_higher_number_is_told_so():
    first, second = living("first", 60), living("second", 60)
    assert not others_lead(first, leads=True)
    assert others_lead(second, leads=True)


@pytest.mark.parametrize(
    ("leads_for", "why"),
    [
        (None, "of release 0.9.0"),
        (-1, "it is stuck"),
        (3_600, "the clock was set back"),
    ],
)
def test_worker_that_has_not_asked_lately_leads_no_other(leads_for, why):
    living("leader", leads_for)
    assert not others_lead(living("other")), why


def test_worker_whose_lock_nobody_holds_leads_no_other():
    living("leader", 60, lock_key=KEY)
    other = living("other")
    with holding(KEY):
        assert others_lead(other)
    wait_for(lambda: not others_lead(other), "its process is gone")


def test_try_of_a_lock_leaves_no_lock_behind():
    living("leader", 60, lock_key=KEY)
    other = living("other")
    with session() as beating, session() as process:
        assert not others_lead(other, execute=beating.execute)
        took = "SELECT pg_try_advisory_lock_shared(%(key)s)"
        assert process.execute(took, {"key": KEY}) == [(True,)]
        assert others_lead(other, execute=beating.execute)


def test_heartbeat_of_an_idle_worker_says_what_a_fetch_would_find():
    living("leader", 60)
    other = living("other")

    def found() -> tuple:
        parameters = {**vars(other.row), **BEAT}
        return execute(statement("heartbeat"), parameters)[0][4:6]

    assert found() == (False, None)
    job_that_is("SCHEDULED", run_after=timezone.now() + hours(1))
    job_that_is("READY")
    has_ready, next_due = found()
    assert has_ready
    assert 3_500 < next_due <= 3_600


# What a survey says


def test_worker_that_asks_leads():
    asking, other = living("asking"), living("other")
    survey(asking.id)
    assert leading() == {asking.id}
    assert others_lead(other)


def test_worker_that_is_alone_does_not_write_that_it_leads():
    """It would be one more commit every two seconds."""
    survey(living("asking").id)
    assert leading() == set()


def test_worker_that_others_may_take_for_dead_does_not_lead_them():
    """Or they would not look for its jobs."""
    asking = living("asking", 60)
    living("other")
    asking.fall_silent(7_200)
    Worker.objects.filter(pk=asking.id).update(leads_until=None)
    survey(asking.id)
    assert leading() == set()


def test_survey_does_not_wait_for_a_session_that_holds_the_row_of_the_worker():
    asking = living("asking")
    living("other")
    with session() as operator:
        operator.begin()
        lock = "SELECT FROM pgjobs_worker WHERE id = %(id)s FOR UPDATE"
        operator.execute(lock, {"id": asking.id})
        execute("SET lock_timeout = '5s'")
        survey(asking.id)
        execute("RESET lock_timeout")
        assert leading() == set()


# Whatever happens


class Fleet:
    """Three workers whose heartbeats, surveys and faults the test orders."""

    def __init__(self) -> None:
        Worker.objects.all().delete()
        self.hands = [living(f"worker {number}") for number in range(3)]
        self.leads = [True] * 3
        self.awake = {0, 1, 2}

    def beat(self, number: int) -> None:
        if number in self.awake:
            self.leads[number] = not others_lead(self.hands[number], self.leads[number])

    def ask(self, number: int) -> None:
        if number in self.awake and self.leads[number]:
            survey(self.hands[number].id)

    def freeze(self, number: int) -> None:
        if len(self.awake) > 1:
            self.awake.discard(number)

    def thaw(self, number: int) -> None:
        self.awake.add(number)

    def lose_row(self, number: int) -> None:
        """As another worker deletes it that takes this one for dead."""
        Worker.objects.filter(pk=self.hands[number].id).delete()

    def step_clock(self, number: int) -> None:
        """Set the clock back by hours, or forth by a minute."""
        step = "interval '1 minute'" if number else "-interval '3 hours'"
        execute(f"UPDATE pgjobs_worker SET leads_until = leads_until - {step}")

    @property
    def leaders(self) -> set[int]:
        return {number for number in self.awake if self.leads[number]}


EVENTS = ("beat", "ask", "freeze", "thaw", "lose_row", "step_clock")


@given(
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 2)), max_size=20),
    st.permutations(range(3)),
)
@hypothesis_settings(max_examples=40, deadline=None)
def test_some_living_worker_always_leads_and_soon_one_alone(events, order):
    fleet = Fleet()
    for event, number in events:
        getattr(fleet, event)(number)
    fleet.step_clock(1)  # no row says any more that a worker leads that does not
    for _ in range(2):
        for number in order:
            fleet.beat(number)
            fleet.ask(number)
        assert fleet.leaders
    assert len(fleet.leaders) == 1


# What workers make of it


def test_worker_beside_one_that_leads_asks_and_prunes_nothing(settings):
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(queues=("none",), poll=600) as loop:
        beat(loop)
        assert not loop.upkeep.survey.leads
        for name in ("expire", "rescue", "prune"):
            assert loop.upkeep[name].next_event == inf, name
        assert loop.admitting.sweeping.due > monotonic() + 2_000
        wait_for(lambda: is_far(loop.upkeep["wake"].next_event), "it has begun")
        with statements_of_workers() as executed:
            beat(loop)
        assert executed == ["heartbeat heartbeat"]


def is_far(moment: float) -> bool:
    return moment > monotonic() + 10


def test_worker_beside_one_that_leads_still_cancels_expired_jobs_that_it_meets(
    settings,
):
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(poll=600) as loop:
        beat(loop)
        with transaction.atomic():
            job = job_that_is("READY", expires_at=timezone.now() - hours(1))
        beat(loop)  # it sees a READY job
        wait_for_status(job, "CANCELLED")
        assert not loop.upkeep.survey.leads


def test_worker_begins_to_lead_at_the_first_heartbeat_without_a_leader(settings):
    settings.PGJOBS = SLOW
    leader = living("leader", 300)
    with running_worker(queues=("none",), poll=600) as loop:
        beat(loop)
        leader.vanish()
        beat(loop)
        survey = loop.upkeep.survey
        wait_for(lambda: survey.leads and survey.due < inf, "it leads")
        assert loop.upkeep["prune"].due < monotonic() + 60
        assert loop.admitting.sweeping.due < monotonic() + 600


def test_worker_that_learns_of_another_leader_with_a_lower_number_rests(settings):
    settings.PGJOBS = SLOW
    other = living("other")
    with running_worker(queues=("none",), poll=600) as loop:
        wait_for_pass(loop)
        assert loop.upkeep.survey.leads
        until = timezone.now() + timedelta(seconds=300)
        Worker.objects.filter(pk=other.id).update(leads_until=until)
        beat(loop)
        assert not loop.upkeep.survey.leads


def test_worker_whose_chore_fails_leads_no_other(settings):
    """It may lack a right or the code that another one has."""
    settings.PGJOBS = SLOW
    living("other")
    with running_worker(queues=("none",), poll=600) as loop:
        wait_for_pass(loop)
        assert leading() == {loop.id}
        loop.upkeep.expiry.backoff.failed(monotonic())
        wait_for_pass(loop)
        assert leading() == set()
        assert loop.upkeep.survey.leads
        loop.upkeep.expiry.backoff.passed()
        wait_for_pass(loop)
        assert leading() == {loop.id}


def test_worker_whose_heartbeats_fail_leads(settings):
    """Something that keeps all from beating must not keep all from asking."""
    settings.PGJOBS = SLOW | {"HEARTBEAT_INTERVAL": 0.3}
    living("leader", 300)
    with running_worker(queues=("none",), poll=600) as loop, session() as operator:
        wait_for(lambda: not loop.upkeep.survey.leads, "it rests")
        operator.begin()
        lock = "SELECT FROM pgjobs_worker WHERE id = %(id)s FOR UPDATE"
        operator.execute(lock, {"id": loop.id})
        wait_for(lambda: loop.upkeep.survey.leads, "it leads")


def test_beat_that_comes_while_the_worker_rests_is_not_missed(settings):
    """The heartbeat's thread says it at any time, also within the chore."""
    settings.PGJOBS = SLOW
    leader = living("leader", 300)
    with running_worker(queues=("none",), poll=600) as loop:
        survey, last_beat = loop.upkeep.survey, loop.upkeep.survey.view.last_beat

        def beat_meanwhile():
            found = last_beat()
            if not found.leads and Worker.objects.filter(pk=leader.id).delete()[0]:
                loop.heartbeat.beat()
            return found

        survey.view = survey.view._replace(last_beat=beat_meanwhile)
        survey.expect()
        loop.bell.ring()
        wait_for(lambda: survey.leads, "it leads")


# Instead of polls


def test_idle_worker_takes_a_job_that_its_heartbeat_has_seen(settings):
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(poll=600, listen=False) as loop:
        beat(loop)
        job = enqueue(noop)
        beat(loop)
        wait_for_status(job, "SUCCESSFUL")


def promoted() -> Job:
    job = job_that_is("SCHEDULED", run_after=timezone.now() - hours(1))
    upkeep.promote(execute)
    return job


def rescued() -> Job:
    dead = Hand("dead")
    job = enqueue(noop)
    dead.claim_one()
    dead.vanish()
    assert Hand("rescuer").rescue()
    return job


def released() -> Job:
    job = enqueue(noop)
    leaver = Hand("leaver")
    leaver.set_back(leaver.claim_one(), "RELEASE")
    return job


def admitted() -> Job:
    hand = Hand("hand")
    first, job = (noop.using(lock="door").enqueue() for _ in range(2))
    claimed = hand.claim_one()
    assert claimed.id == first.pk
    assert hand.succeed(claimed)
    assert admit()
    return job


def retried() -> Job:
    job = job_that_is("FAILED")
    job.retry()
    return job


@pytest.mark.parametrize("make", [promoted, rescued, released, admitted, retried])
def test_worker_that_missed_the_notification_takes_a_job_that_others_made_ready(
    settings, make
):
    """No poll follows soon, and it does not lead. So only its heartbeat finds it."""
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(poll=600, listen=False) as loop:
        beat(loop)
        assert not loop.upkeep.survey.leads
        job = make()
        job.refresh_from_db()
        assert job.status == "READY"
        beat(loop)
        wait_for_status(job, "SUCCESSFUL")


@pytest.mark.parametrize(("poll", "is_put_off"), [(600, True), (60, False)])
def test_heartbeat_that_saw_no_job_puts_off_a_poll_that_comes_no_sooner(
    settings, poll, is_put_off
):
    settings.PGJOBS = SLOW
    living("leader", 300)
    with running_worker(queues=("none",), poll=poll) as loop:
        beat(loop)  # its first fetch is behind it now
        beat(loop)
        left = loop.claimer.rule.due - monotonic()
        assert (700 < left <= 1.25 * poll) if is_put_off else (left <= poll)


# Handing over


@pytest.mark.listening
def test_worker_that_stops_hands_the_upkeep_over_at_once(settings):
    settings.PGJOBS = SLOW
    leader = WorkerThread(queues=("none",), poll=600)
    wait_for(lambda: leader.loop.phase == "running", "the first has started")
    with running_worker(queues=("none",), poll=600) as other:
        wait_for_pass(leader.loop)
        assert leading() == {leader.loop.id}
        beat(other)
        assert not other.upkeep.survey.leads
        leader.stop()
        wait_for(lambda: other.upkeep.survey.leads, "it leads", SOON)


@pytest.mark.listening
def test_notifications_make_no_worker_beat_more_than_once_a_second(settings):
    """Any role of the database may notify."""
    settings.PGJOBS = SLOW
    with running_worker(queues=("none",), poll=600) as loop, session() as other:
        begun, heard = monotonic(), loop.heartbeat.last_heard
        with statements_of_workers() as executed:
            while monotonic() < begun + 2.5:
                other.execute("NOTIFY pgjobs_resigned, 'whatever'")
                time.sleep(0.01)
        assert loop.heartbeat.last_heard > heard
        assert 1 <= executed.count("heartbeat heartbeat") <= 3


def test_worker_resigns_only_if_it_leads():
    asking, other = living("asking"), living("other")
    survey(asking.id)
    with session() as listening:
        listening.listen("pgjobs_resigned")
        upkeep.resign(execute, other.id)
        assert listening.heard() == []
        upkeep.resign(execute, asking.id)
        assert listening.heard() == [("pgjobs_resigned", "")]
    assert leading() == set()


# Processes


def start_two(start_worker) -> tuple:
    """Start two worker processes; return the one that leads, and the other one."""
    first = start_worker(settings=BRISK)
    wait_for(lambda: Worker.objects.count() == 1, "the first has started")
    second = start_worker(settings=BRISK)
    wait_for(lambda: Worker.objects.count() == 2, "the second has started")
    wait_for(lambda: len(leading()) == 1, "one of them leads")
    return first, second


def ids() -> list[int]:
    return list(Worker.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.direct
@pytest.mark.parametrize("way", ["kill", "freeze"])
def test_another_worker_leads_after_the_death_of_the_leader(start_worker, way):
    first, _ = start_two(start_worker)
    _, other = ids()
    getattr(first, way)()
    wait_for(lambda: leading() == {other}, "the other one leads", SOON)


@pytest.mark.direct
def test_leader_that_was_frozen_and_goes_on_leads_again_and_one_alone(start_worker):
    first, _ = start_two(start_worker)
    leader, other = ids()
    first.freeze()
    wait_for(lambda: leading() == {other}, "the other one leads", SOON)
    first.thaw()
    wait_for(lambda: leader in leading(), "it leads again", SOON)
    wait_for(lambda: leading() == {leader}, "the other one rests", SOON)


@pytest.mark.direct
def test_jobs_of_the_leader_are_taken_back_after_its_death(start_worker, tmp_path):
    first = start_worker(settings=BRISK)
    job = enqueue(hold, str(tmp_path / "held"))
    wait_for_status(job, "RUNNING")
    start_worker(settings=BRISK)
    wait_for(lambda: len(ids()) == 2 and leading() == {ids()[0]}, "the first leads")
    first.kill()
    wait_for(Job.objects.filter(pk=job.pk, crashes=1).exists, "it is taken back", SOON)
