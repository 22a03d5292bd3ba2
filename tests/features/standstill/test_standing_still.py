"""`jobstatus --check` rings when jobs, lines or notifications stand still."""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from pgjobs import enqueue
from pgjobs.base.queue_database import database_time
from pgjobs.features.overrides.queue import Wish, set_override
from pgjobs.features.standstill import remarks
from pgjobs.models import Job, Override, Queue, Rate, Worker
from pgjobs.reports.remarks import Seen
from pgjobs.reports.status import living_workers
from tests.actors import Hand, admit, execute, hours
from tests.tasks import noop

pytestmark = pytest.mark.django_db

locked = noop.using(lock="door")
limited = noop.using(max_running=1, limit_key="mail")


@pytest.fixture
def hand():
    """Return a worker that has served all queues for an hour."""
    return Hand(started_at=timezone.now() - hours(1))


def problems(pause=lambda seconds: None) -> list[str]:
    now = database_time("default")
    seen = Seen("default", now, living_workers("default"))
    minutes = remarks.LONGEST_STANDSTILL.total_seconds()
    found = [
        *remarks.unadmitted_jobs(seen, 60, pause),
        *remarks.still_lines(seen, minutes, pause),
        *remarks.notification_problems(seen, remarks.MOST_NOTIFICATIONS),
    ]
    return [each.text for each in found]


def let_pass(minutes: int) -> None:
    """Let all jobs be older."""
    execute(
        "UPDATE pgjobs_job SET enqueued_at = enqueued_at - %(time)s::interval",
        {"time": timedelta(minutes=minutes)},
    )


# Jobs that are not admitted


def test_job_that_no_worker_admits_is_named(hand):
    job = enqueue(locked)
    let_pass(2)
    (text,) = problems()
    assert text.startswith("1 job waits to be admitted, although a worker serves its")
    assert f"queue: job {job.pk} for 2 min" in text
    with pytest.raises(CommandError, match="waits to be admitted"):
        call_command("jobstatus", "--check")


def test_all_jobs_that_no_worker_admits_are_counted(hand):
    for queue in ("a", "a", "b"):
        enqueue(locked.using(queue_name=queue))
    let_pass(2)
    (text,) = problems()
    assert text.startswith("3 jobs or more wait to be admitted")


def test_job_that_comes_after_another_is_missed_in_whatever_queue(hand):
    first = enqueue(noop)
    hand.row.queues = "default"
    hand.row.save()
    enqueue(noop.using(after=first, queue_name="elsewhere"))
    let_pass(2)
    assert problems()


def test_job_that_has_just_come_is_no_problem(hand):
    enqueue(locked)
    assert problems() == []


def test_admitted_jobs_are_no_problem(hand):
    enqueue(locked)
    let_pass(2)
    admit()
    assert problems() == []


def test_job_of_a_paused_or_unserved_queue_is_not_missed(hand):
    hand.row.excluded = "slow"
    hand.row.save()
    Queue.objects.create(name="paused").pause()
    for name in ("slow", "paused"):
        enqueue(locked.using(queue_name=name))
    let_pass(2)
    assert problems() == []


@pytest.mark.parametrize(
    ("kind", "key"), [("task", "tests.noop"), ("lock", "door"), ("lock", "d" * 500)]
)
def test_line_of_what_people_paused_is_no_problem_while_it_is_paused(hand, kind, key):
    set_override("default", kind, key, Wish(paused=True), "ada", "page")
    enqueue(noop.using(lock="door" if kind == "task" else key))
    let_pass(20)
    admit()
    assert Job.objects.get().line.startswith("paused ")
    assert problems() == []
    Override.objects.update(until=timezone.now())
    (text,) = problems()
    assert text.startswith("A line stands still")


def test_worker_that_has_just_started_gets_a_minute():
    Hand()
    enqueue(locked)
    let_pass(2)
    assert problems() == []


def test_jobs_that_are_admitted_one_after_another_are_no_problem(hand):
    enqueue(locked)
    enqueue(locked)
    let_pass(2)

    def pause(seconds):
        Job.objects.order_by("pk").first().cancel()

    assert problems(pause) == []


# Lines


def stuck_line() -> tuple[Job, Job]:
    """Return a job that is held up by one in a queue without a worker."""
    passing = Hand("passing")
    first, second = enqueue(locked.using(queue_name="slow")), enqueue(locked)
    admit()
    passing.vanish()
    return first, second


def test_line_behind_a_job_that_no_worker_takes_stands_still(hand):
    first, second = stuck_line()
    hand.row.excluded = "slow"
    hand.row.save()
    let_pass(20)
    (text,) = problems()
    assert f"its first job, {second.pk}, has waited for 20 min" in text
    assert f"It waits for job {first.pk} in queue slow, no worker." in text


def test_line_behind_a_job_of_a_living_worker_moves(hand):
    enqueue(locked)
    assert hand.claim_one()
    enqueue(locked)
    admit()
    let_pass(20)
    assert problems() == []


def test_line_behind_a_job_of_a_lost_worker_stands_still(hand):
    lost = Hand("lost")
    enqueue(locked)
    assert lost.claim_one()
    enqueue(locked)
    admit()
    lost.fall_silent(60)
    let_pass(20)
    assert len(problems()) == 1


def test_line_behind_a_ready_job_that_will_be_claimed_moves(hand):
    enqueue(locked)
    enqueue(locked)
    admit()
    let_pass(20)
    assert problems() == []


def test_line_behind_a_retry_of_tomorrow_stands_still(hand):
    first = enqueue(locked.using(run_after=hours(24)))
    enqueue(locked)
    admit()
    let_pass(20)
    (text,) = problems()
    assert f"It waits for job {first.pk}, due" in text


def test_line_that_has_not_waited_for_long_is_no_problem(hand):
    enqueue(locked.using(run_after=hours(24)))
    enqueue(locked)
    admit()
    let_pass(10)
    assert problems() == []


def test_line_of_a_limit_that_nobody_uses_stands_still(hand):
    lost = Hand("lost")
    enqueue(limited)
    assert lost.claim_one()
    enqueue(limited)
    admit()
    let_pass(20)
    assert problems() == []
    lost.fall_silent(60)
    assert len(problems()) == 1


@pytest.mark.parametrize(
    ("opens", "number"), [(hours(20), 0), (-hours(1), 1), (hours(50), 1), (None, 1)]
)
def test_line_of_a_rate_stands_still_if_it_opens_too_late_or_has_not_been_seen(
    hand, opens, number
):
    for _ in range(2):
        enqueue(noop.using(rate="1/day"))
    admit()
    let_pass(20)
    at = None if opens is None else database_time("default") + opens
    Rate.objects.update(opens_at=at)
    assert len(problems()) == number


def test_line_whose_first_job_changes_moves(hand):
    _, second = stuck_line()
    hand.row.excluded = "slow"
    hand.row.save()
    let_pass(20)

    def pause(seconds):
        second.cancel()

    assert problems(pause) == []


def test_first_job_in_a_queue_that_is_served_counts(hand):
    """Behind jobs of the same line in queues that nobody serves."""
    hand.row.excluded = "a,b"
    hand.row.save()
    passing = Hand("passing")
    enqueue(locked.using(run_after=hours(24)))
    jobs = [enqueue(locked.using(queue_name=name)) for name in ("a", "b", "c")]
    admit()
    passing.vanish()
    let_pass(20)
    (text,) = problems()
    assert f"its first job, {jobs[2].pk}," in text


def test_line_behind_a_ready_job_of_a_paused_queue_stands_still(hand):
    enqueue(limited.using(queue_name="paused"))
    enqueue(limited)
    admit()
    let_pass(20)
    assert problems() == []
    Queue.objects.create(name="paused").pause()
    assert len(problems()) == 1


def test_line_behind_a_ready_job_that_a_quiet_worker_would_claim_stands_still(hand):
    hand.row.excluded = "slow"
    hand.row.save()
    quiet = Hand("slow", queues="slow")
    enqueue(limited.using(queue_name="slow"))
    enqueue(limited)
    admit()
    let_pass(20)
    assert problems() == []
    Worker.objects.filter(pk=quiet.id).update(wanted="quiet")
    assert len(problems()) == 1


def test_many_lines_are_counted_and_some_named(hand):
    for number in range(8):
        task = noop.using(lock=f"door {number}")
        enqueue(task.using(run_after=hours(24)))
        enqueue(task)
    admit()
    let_pass(20)
    found = problems()
    assert len(found) == 6
    assert found[-1] == "3 more lines stand still."


def test_keys_are_not_told(hand):
    enqueue(noop.using(lock="DE-SECRET", run_after=hours(24)))
    enqueue(noop.using(lock="DE-SECRET"))
    admit()
    let_pass(20)
    assert "SECRET" not in "".join(problems())


# Notifications


def test_queue_of_notifications_that_is_almost_empty_is_no_problem():
    assert problems() == []


def test_queue_of_notifications_that_fills_is_a_problem(monkeypatch):
    monkeypatch.setattr(remarks, "MOST_NOTIFICATIONS", -1.0)
    (text,) = problems()
    assert "queue of notifications is 0 % full" in text


def waiting_for_an_answer() -> Job:
    """Return a job of the lock whose task waits for an answer."""
    first = enqueue(locked)
    admit()
    execute(
        "UPDATE pgjobs_job SET status = 'WAITING', waiting_for = 'answer', line = NULL"
        " WHERE id = %(id)s",
        {"id": first.pk},
    )
    return first


def test_line_behind_a_job_that_waits_for_an_answer_is_meant_to_wait(hand):
    first = waiting_for_an_answer()
    enqueue(locked)
    admit()
    let_pass(20)
    assert problems() == []
    Job.objects.filter(pk=first.pk).cancel()


def test_line_behind_a_job_that_sleeps_is_meant_to_wait(hand):
    first = enqueue(locked.using(run_after=hours(30)))
    enqueue(locked)
    admit()
    let_pass(20)
    assert len(problems()) == 1
    execute(
        "INSERT INTO pgjobs_step"
        " (job_id, life, name, attempt, return_value, finished_at)"
        " SELECT id, life, 'night', 1, 'null', run_after FROM pgjobs_job"
        " WHERE id = %(id)s",
        {"id": first.pk},
    )
    assert problems() == []


def test_line_is_found_behind_many_jobs_of_another(hand, monkeypatch):
    monkeypatch.setitem(remarks.STILL_LINES, "most_jobs", 2)
    for _ in range(4):
        enqueue(noop.using(max_running=1, limit_key="mail", queue_name="slow"))
    enqueue(locked.using(run_after=hours(30)))
    second = enqueue(locked)
    admit()
    let_pass(20)
    assert any(f"its first job, {second.pk}," in text for text in problems())
