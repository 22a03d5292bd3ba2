"""Limits and rates: never more at a time, never too fast, and all keys alternate."""

import pytest
from django.db.utils import DatabaseError
from django.utils import timezone

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Job, Queue, Rate
from pgjobs.queue import admitting, upkeep
from tests import tasks
from tests.actors import (
    Hand,
    admit,
    execute,
    pass_time,
    session,
    statuses,
    stored_statuses,
    survey,
)
from tests.processes import running_worker, shared_queue, wait_for_all

pytestmark = [shared_queue, pytest.mark.usefixtures("unhurried")]

two = tasks.noop.using(max_running=2)
slow = tasks.noop.using(rate="1/hour")


@pytest.fixture(autouse=True)
def served():
    """Let all queues have a worker that lives: without one no job is admitted."""
    Hand("living")


def seconds_until_token(key: str = "tests.noop") -> int:
    """Return the seconds until the rate has a token for its next job."""
    opens_at = Rate.objects.get(key=key).opens_at
    return round((opens_at - timezone.now()).total_seconds())


def start_next(number: int = 1) -> None:
    """Let a worker start jobs that are READY."""
    admit()
    assert len(Hand().claim(number)) == number
    admit()


# Limits


def test_no_more_jobs_than_the_limit_are_ready_or_run():
    jobs = [enqueue(two) for _ in range(4)]
    assert statuses() == ["READY", "READY", "WAITING", "WAITING"]
    jobs[2].refresh_from_db()
    assert jobs[2].waiting_for == "limit"
    hand = Hand()
    first, _ = hand.claim(10)
    assert hand.succeed(first)
    assert statuses() == ["SUCCESSFUL", "RUNNING", "READY", "WAITING"]


def test_limit_is_kept_within_one_statement():
    enqueue_many([two.bind() for _ in range(5)])
    assert statuses() == ["READY"] * 2 + ["WAITING"] * 3


@pytest.mark.parametrize("verdict", ["FAIL", "CANCEL", "SNOOZE"])
def test_limit_has_room_again_when_a_job_leaves_it(verdict):
    enqueue_many([two.bind() for _ in range(3)])
    hand = Hand()
    hand.set_back(hand.claim_one(), verdict, delay=60)
    assert statuses()[2] == "READY"


def test_priority_given_while_a_job_waits_counts():
    first, _, third = [enqueue(tasks.noop.using(max_running=1)) for _ in range(3)]
    assert statuses() == ["READY", "WAITING", "WAITING"]
    Job.objects.filter(pk=third.pk).update(priority=50)
    first.cancel()
    assert statuses() == ["CANCELLED", "WAITING", "READY"]


@pytest.mark.parametrize("interval", ["1e10", '"Infinity"', '"NaN"'])
def test_rate_that_no_calendar_can_follow_is_refused_by_the_database(interval):
    keys = f'{{"rate_key": "r", "rate_interval": {interval}, "rate_burst": 1}}'
    with pytest.raises(DatabaseError, match=r"rate_interval must|out of range"):
        execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('t', %(keys)s)", {"keys": keys}
        )
    assert not Rate.objects.exists()


def test_rescue_makes_room_that_jobs_of_a_dead_worker_took():
    enqueue_many([two.using(max_crashes=1).bind() for _ in range(4)])
    dead, hand = Hand("dead"), Hand()
    for _ in range(2):
        dead.claim_one()
    dead.vanish()
    assert hand.claim(10) == []
    hand.rescue()
    assert statuses() == ["FAILED", "FAILED", "READY", "READY"]


def test_keys_have_limits_of_their_own():
    customer = tasks.echo.using(max_running=1, limit_key="customer-{value}")
    for customer_id in (1, 2, 1, 2):
        enqueue(customer, customer_id)
    assert statuses() == ["READY", "READY", "WAITING", "WAITING"]


def test_waiting_jobs_go_by_priority():
    enqueue_many([two.using(max_running=1, priority=p).bind() for p in (9, 0, 5)])
    assert statuses() == ["READY", "WAITING", "WAITING"]
    Job.objects.order_by("pk")[0].cancel()
    assert statuses() == ["CANCELLED", "WAITING", "READY"]


def test_job_with_lock_and_limit_waits_for_the_lock_then_for_the_limit():
    both = tasks.noop.using(lock="door", max_running=1)
    door = enqueue(tasks.echo.using(lock="door"), 1)
    full = enqueue(tasks.noop.using(max_running=1))
    job = enqueue(both)
    admit()
    job.refresh_from_db()
    assert (job.status, job.waiting_for) == ("WAITING", "lock")
    door.cancel()
    admit()
    job.refresh_from_db()
    assert (job.status, job.waiting_for) == ("WAITING", "limit")
    full.cancel()
    admit()
    job.refresh_from_db()
    assert job.status == "READY"


@pytest.mark.parametrize("paused", [None, "first"])
def test_line_with_jobs_of_several_queues_goes_by_priority_and_skips_paused_ones(
    paused,
):
    limited = tasks.noop.using(max_running=1)
    first = enqueue(limited)
    admit()
    priorities = {"first": 9 if paused else 0, "second": 5, "third": 1}
    for name, priority in priorities.items():
        enqueue(limited.using(queue_name=name, priority=priority))
    admit()
    if paused:
        Queue.objects.create(name=paused, paused_at=timezone.now())
    first.cancel()
    admit(sweeps=False)
    assert stored_statuses() == ["CANCELLED", "WAITING", "READY", "WAITING"]


def test_line_that_has_only_jobs_of_a_paused_queue_admits_none():
    limited = tasks.noop.using(max_running=1)
    first = enqueue(limited)
    admit()
    enqueue(limited.using(queue_name="paused"))
    admit()
    Queue.objects.create(name="paused", paused_at=timezone.now())
    first.cancel()
    admit(sweeps=False)
    assert stored_statuses() == ["CANCELLED", "WAITING"]


def test_job_that_leaves_the_line_of_a_limit_for_a_lock_makes_way():
    limited = tasks.noop.using(max_running=1)
    first = enqueue(limited)
    admit()
    jobs = enqueue_many([limited.using(lock="door").bind(), limited.bind()])
    admit()
    enqueue(tasks.noop.using(lock="door", lock_mode="mutex"))
    admit()
    first.cancel()
    admit(sweeps=False)
    assert Job.objects.get(pk=jobs[0].pk).waiting_for == "lock"
    assert stored_statuses() == ["CANCELLED", "WAITING", "READY", "READY"]


def test_job_that_leaves_the_line_of_a_rate_for_a_limit_makes_way():
    rated = tasks.noop.using(rate="1/hour", rate_key="r")
    enqueue(rated)
    admit()
    jobs = enqueue_many([rated.using(max_running=1).bind(), rated.bind()])
    admit()
    enqueue(tasks.noop.using(max_running=1))
    admit()
    start_next()
    pass_time(3_601)
    admit(sweeps=False)
    assert Job.objects.get(pk=jobs[0].pk).waiting_for == "limit"
    assert stored_statuses() == ["RUNNING", "WAITING", "READY", "READY"]


def test_keys_of_a_limit_alternate():
    """A job that has waited stands behind those that were enqueued meanwhile."""
    customer = tasks.echo.using(max_running=1, limit_key="customer-{value}")
    enqueue_many([customer.bind(1) for _ in range(4)])
    enqueue_many([customer.bind(2) for _ in range(2)])
    hand, order = Hand(), []
    for _ in range(6):
        job = hand.claim_one()
        order.append(Job.objects.get(pk=job.id).kwargs["value"])
        hand.succeed(job)
    assert order == [1, 2, 1, 2, 1, 1]


def test_limit_holds_when_two_commit_at_the_same_time():
    insert = """
        INSERT INTO pgjobs_job (task, keys)
        VALUES ('tests.noop', '{"limit_key": "k", "max_running": 1}')
    """
    with session() as one, session() as other, session() as worker:
        for each in (one, other):
            each.begin()
            each.execute(insert)
        other.commit()
        worker.begin()
        assert admitting.admit(worker.execute).admitted == 1
        one.commit()
        assert admitting.admit(execute).admitted is None
        worker.commit()
    assert statuses() == ["WAITING", "READY"]


def test_held_row_of_a_limit_is_skipped_and_found_once_it_is_released():
    jobs = [enqueue(two) for _ in range(5)]
    assert statuses() == ["READY"] * 2 + ["WAITING"] * 3
    with session() as holder:
        holder.begin()
        row = {"id": jobs[2].pk}
        holder.execute("SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", row)
        jobs[0].cancel()
        assert statuses() == ["CANCELLED", "READY", "WAITING", "READY", "WAITING"]
        holder.commit()
    jobs[1].cancel()
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses()[2:] == ["READY", "READY", "WAITING"]


def test_worker_without_notifications_runs_what_waits_for_a_limit():
    enqueue_many([two.bind() for _ in range(12)])
    with running_worker(slots=4, poll=600, listen=False):
        wait_for_all("SUCCESSFUL")


# Rates


def test_jobs_over_the_rate_wait_one_interval_after_the_other():
    jobs = [enqueue(slow) for _ in range(3)]
    assert statuses() == ["READY", "WAITING", "WAITING"]
    assert seconds_until_token() == 3600
    jobs[1].refresh_from_db()
    assert jobs[1].waiting_for == "rate"
    start_next()
    pass_time(3_601)
    assert statuses() == ["RUNNING", "READY", "WAITING"]
    assert seconds_until_token() == 3600


def test_burst_may_start_at_once():
    enqueue_many([slow.using(rate="6/hour", burst=2).bind() for _ in range(4)])
    assert statuses() == ["READY"] * 2 + ["WAITING"] * 2
    start_next(2)
    pass_time(601)
    assert statuses() == ["RUNNING"] * 2 + ["READY", "WAITING"]


def test_burst_is_the_number_of_the_rate_unless_it_is_given():
    enqueue_many([slow.using(rate="3/hour").bind() for _ in range(5)])
    assert statuses() == ["READY"] * 3 + ["WAITING"] * 2


def test_waiting_jobs_are_admitted_when_their_tokens_are_there():
    enqueue_many([slow.bind() for _ in range(4)])
    assert statuses() == ["READY", "WAITING", "WAITING", "WAITING"]
    assert not upkeep.promote(execute).must_admit
    start_next()
    pass_time(3_601)
    assert upkeep.promote(execute).must_admit
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["RUNNING", "READY", "WAITING", "WAITING"]
    assert not upkeep.promote(execute).must_admit
    start_next()
    pass_time(7_300)
    assert statuses() == ["RUNNING"] * 2 + ["READY", "WAITING"]  # burst: 1


def test_next_in_line_moves_up_when_one_before_it_is_cancelled():
    jobs = [enqueue(slow) for _ in range(3)]
    admit()
    jobs[1].cancel()
    assert statuses() == ["READY", "CANCELLED", "WAITING"]
    assert seconds_until_token() == 3600
    start_next()
    pass_time(3_601)
    assert statuses() == ["RUNNING", "CANCELLED", "READY"]


def test_job_of_higher_priority_goes_first_and_the_others_later():
    for task in (slow, slow, slow.using(priority=1)):
        enqueue(task)
        admit()
    start_next()
    pass_time(3_601)
    assert statuses() == ["RUNNING", "WAITING", "READY"]
    start_next()
    pass_time(3_600)
    assert statuses() == ["RUNNING", "READY", "RUNNING"]


def test_worker_knows_when_the_next_token_comes():
    enqueue_many([slow.bind(), slow.bind()])
    admit()
    due = Hand().record_and_claim(limit=1).next_due
    assert 3_500 < due <= 3_600
    assert 3_500 < survey(0, with_ready=False).next_due <= 3_600


def test_rate_that_no_job_waits_for_wakes_no_worker():
    """Not even if jobs that are gone now have waited for it."""
    enqueue_many([slow.bind(), slow.bind()])
    admit()
    Job.objects.filter(status="WAITING").cancel()
    pass_time(3_601)
    admit()
    assert Rate.objects.get().opens_at is None
    assert Hand().record_and_claim(limit=1).next_due is None


def test_released_job_needs_another_token():
    enqueue(slow)
    hand = Hand()
    hand.set_back(hand.claim_one(), "RELEASE")
    assert statuses() == ["WAITING"]
    pass_time(3_601)
    assert statuses() == ["READY"]


def test_rate_that_has_all_its_tokens_is_forgotten():
    keyed = tasks.echo.using(rate="1/hour", rate_key="customer-{value}")
    enqueue_many([keyed.bind(number) for number in range(3)])
    start_next(3)
    upkeep.forget_rates(execute)
    assert Rate.objects.count() == 3
    pass_time(7_201)
    Rate.objects.filter(key="customer-0").update(full_at="2100-01-01T00:00Z")
    with session() as other:
        other.begin()
        other.execute("UPDATE pgjobs_rate SET key = key WHERE key = 'customer-1'")
        upkeep.forget_rates(execute)
        assert set(Rate.objects.values_list("key", flat=True)) == {
            "customer-0",
            "customer-1",
        }
        other.rollback()
    upkeep.forget_rates(execute)
    assert Rate.objects.get().key == "customer-0"


def test_worker_starts_jobs_as_fast_as_the_rate_allows():
    enqueue_many([tasks.noop.using(rate="10/second", burst=1).bind() for _ in range(5)])
    with running_worker(poll=600):
        wait_for_all("SUCCESSFUL")
    first, *_, last = Job.objects.order_by("pk")
    assert (last.started_at - first.enqueued_at).total_seconds() >= 0.4


def test_job_that_leaves_the_line_makes_way_for_jobs_with_a_larger_limit():
    wide, narrow = [tasks.noop.using(limit_key="key", max_running=n) for n in (2, 1)]
    jobs = []
    for task in (wide, narrow, wide, wide):
        jobs.append(enqueue(task))
        admit()
    assert statuses() == ["READY", "WAITING", "WAITING", "WAITING"]
    jobs[0].cancel()
    assert statuses() == ["CANCELLED", "READY", "READY", "WAITING"]
    jobs[1].cancel()
    assert statuses() == ["CANCELLED", "CANCELLED", "READY", "READY"]


def test_each_of_two_jobs_that_end_together_admits_the_next_of_its_lock():
    """The end of the first finds the second one in the line, which has also ended."""
    limited = tasks.noop.using(limit_key="key", max_running=1)
    enqueue_many([limited.bind(), *[limited.using(lock="door").bind()] * 2])
    admit()
    assert statuses() == ["READY", "WAITING", "WAITING"]
    ids = Job.objects.order_by("pk").values_list("pk", flat=True)[:2]
    Job.objects.filter(pk__in=list(ids)).succeed()
    assert statuses() == ["SUCCESSFUL", "SUCCESSFUL", "READY"]
