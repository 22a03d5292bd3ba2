"""How a worker whose processes are all busy looks past READY isolated jobs."""

from datetime import timedelta
from math import inf
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from django.utils import timezone

from pgjobs import enqueue_many
from pgjobs.features.isolation.passing import EitherRule, PassingRule
from pgjobs.models import Job
from pgjobs.queue import claiming
from pgjobs.worker import Loop
from pgjobs.worker.fetch_rule import FetchRule
from tests import tasks
from tests.actors import Hand
from tests.actors import execute as own_execute
from tests.processes import (
    SOON,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support import isolated_tasks as isolated

pytestmark = shared_queue

POLL = 60.0


class Fetches:
    """The fetches past isolated jobs of one worker, at times that the test chooses."""

    def __init__(self, slots: int = 4, seconds: float = 0.01):
        self.rule = PassingRule(POLL, False, self)
        self.hand = Hand("one")
        self.slots = slots
        self.seconds = seconds
        self.now = 100.0
        self.execute = own_execute

    def look(self) -> tuple[claiming.Fetch, list[int]]:
        """Fetch once; return how, and the ids of what was claimed."""
        fetch = self.rule.next_fetch(self.slots, self.now)._replace(isolated=0)
        if not fetch.scan_limit:
            return fetch, []
        claimed = self.hand.record_and_claim(limit=self.slots, fetch=fetch)
        self.now += self.seconds
        self.rule.fetched(fetch, claimed, self.slots, self.now, 0)
        return fetch, [job.id for job in claimed.jobs]

    def settle(self) -> "Fetches":
        """Look until the fetches begin at cursors."""
        for _ in range(20):
            self.rule.wake()
            self.look()
            if self.rule.cursors:
                return self
            self.now += 0.3
        raise AssertionError("There are no cursors.")


@pytest.fixture
def crowd(monkeypatch):
    """Let few isolated jobs count as many."""
    monkeypatch.setattr(claiming, "EXTRA_WALK", 20)
    enqueue_many([isolated.add.bind(each) for each in range(30)])
    enqueue_many([isolated.add.using(priority=5).bind(each) for each in range(30)])
    return Job.objects.all()


def test_fetch_begins_behind_isolated_jobs_that_were_ready_a_moment_before(crowd):
    fetches = Fetches().settle()
    plain = [tasks.noop.using(priority=n).enqueue().pk for n in (9, 5, 2, 0, -3)]
    fetches.rule.wake()
    fetch, ids = fetches.look()
    assert not (fetch.is_complete or fetch.by_queue)
    assert ids == plain[:4]


def test_rescan_finds_what_came_in_before_the_cursors(crowd):
    early = tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    enqueue_many([isolated.add.bind(1)] * 3)
    fetches = Fetches().settle()
    Job.objects.filter(pk=early.pk).update(status="READY", run_after=None)
    fetches.rule.wake()
    assert fetches.look()[1] == [], "it stands before the cursor"
    fetches.now = fetches.rule.rescan_at
    found = []
    while not found:
        assert fetches.rule.due <= fetches.now
        found = fetches.look()[1]
    assert found == [early.pk]


def test_rescan_comes_after_forty_times_its_duration_and_at_a_poll(crowd):
    fetches = Fetches().settle()
    assert fetches.rule.rescan_at == pytest.approx(fetches.now + 0.4)
    fetches = Fetches(seconds=10.0).settle()
    assert fetches.rule.rescan_at == pytest.approx(fetches.now + POLL)


def test_late_commit_stands_behind_the_cursors(crowd):
    """A job that was committed within the last moment may have an earlier turn."""
    fetches = Fetches().settle()
    turns = dict(Job.objects.order_by("turn").values_list("priority", "turn"))
    assert fetches.rule.cursors == turns
    enqueue_many([isolated.add.bind(1)] * 5)
    fetches.rule.cursors = {}
    fetches.rule.by_queue_until = inf
    fetches.now += 2.0
    fetches.rule.wake()
    fetches.look()
    assert fetches.rule.cursors == turns, "the new ones came just now"


def test_what_came_in_is_looked_for_next_even_if_a_process_is_free(crowd):
    fetches = Fetches().settle()
    fetches.rule.pass_isolated(fetches.now)
    assert not fetches.rule.decides(1), "it has just looked"
    fetches.rule.wake()
    fetches.rule.pass_isolated(fetches.now)
    assert fetches.rule.decides(1)
    fetches.look()
    assert not fetches.rule.decides(1)


def test_worker_that_counts_units_asks_for_no_cursors():
    asked = []
    connection = SimpleNamespace(execute=lambda *how: asked.append(how) or [])
    for minds_units in (True, False):
        rule = PassingRule(POLL, minds_units, connection)
        rule.by_queue_until = inf
        assert rule.next_fetch(4, 100.0).by_queue
        assert bool(asked) is not minds_units


@pytest.fixture
def either() -> EitherRule:
    """Return the rule of a worker with a free process, whose look past jobs is next."""
    enqueue_many([isolated.add.bind(1)] * 3)
    capacity = cast(Any, SimpleNamespace(free_processes=1))
    fetches = Fetches()
    either = EitherRule(FetchRule(POLL), capacity, fetches)
    fetches.rule = either.passing
    fetches.look()
    assert either.passing.is_empty, "it has passed over all"
    fetches.now = either.passing.rests_until
    either.passing.pass_isolated(fetches.now)
    assert either.passing.decides(1)
    return either


def test_drain_does_not_end_at_isolated_jobs_because_a_pass_isolated_them_is_next(
    either,
):
    assert not either.is_empty
    either.capacity.free_processes = 0
    assert either.is_empty


def test_pass_isolated_isolated_jobs_that_fails_keeps_none_of_them_from_beginning(
    either,
):
    now = either.passing.rests_until
    fetch = either.next_fetch(4, now)
    assert not fetch.isolated
    assert not either.can_do_without(fetch, psycopg.Error("too slow"), now)
    assert either.next_fetch(4, now).isolated


def test_worker_looks_past_isolated_jobs_a_few_times_while_it_runs_many(monkeypatch):
    fetches = []
    fetch_of = claiming.record_and_claim

    def counted(*common, fetch=None, **who):
        if fetch and fetch.scan_limit and not fetch.isolated:
            fetches.append(fetch)
        return fetch_of(*common, fetch=fetch, **who)

    monkeypatch.setattr(claiming, "record_and_claim", counted)
    enqueue_many([isolated.add.bind(each) for each in range(300)])
    with running_worker(slots=3, isolated=1):
        wait_for(lambda: not Job.objects.filter(finished_at=None).exists())
    assert len(fetches) < 100


@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
def test_worker_without_free_processes_fetches_what_its_heartbeat_has_seen(settings):
    """It does not lead, hears of no job, and polls rarely."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    until = timezone.now() + timedelta(minutes=5)
    Hand("leader", heartbeat_interval=600, leads_until=until, lease_until=until)
    with running_worker(slots=2, isolated=0, poll=600, listen=False) as loop:
        beat(loop)
        assert not loop.upkeep.survey.leads
        job = tasks.noop.enqueue()
        beat(loop)
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)


def beat(loop: Loop) -> None:
    """Let a worker beat and take what it has learnt; return when it sleeps again."""
    loop.heartbeat.beat()
    loop.upkeep.survey.expect()
    loop.bell.ring()
    wait_for(lambda: loop.upkeep.survey.due and loop.bell.alarm, "it has heard it")
