"""`--prefetch auto`: the worker holds what its slots will begin within moments."""

from datetime import UTC, datetime
from math import inf

import pytest
from django.core.management import call_command

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Attempt, Job
from pgjobs.queue import claiming, looks
from pgjobs.queue.claiming import Ahead, Claimed, ClaimedJob
from pgjobs.worker import ExitCode, prefetching
from pgjobs.worker.poll_schedule import PollSchedule
from pgjobs.worker.prefetching import AHEAD_SECONDS, FEWEST_RUNS, MOST_TASKS, Averages
from tests import tasks
from tests.actors import Hand, admit
from tests.processes import (
    WorkerThread,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

COSTS = {tasks.noop.name: 0.001}


# What a task costs


def averages_of(*seconds: float) -> Averages:
    averages = Averages()
    for each in seconds:
        averages.add([("task", each)])
    return averages


def test_task_is_unknown_until_it_has_run_some_times():
    assert averages_of(*[0.001] * (FEWEST_RUNS - 1)).cost_of("task") == inf
    assert averages_of(*[0.001] * FEWEST_RUNS).cost_of("task") == pytest.approx(0.001)
    assert Averages().cost_of("another") == inf


def test_runs_that_are_noted_together_count_as_if_noted_one_by_one():
    together = Averages()
    together.add([("task", 0.001)] * 500)
    together.add([("task", 0.004)] * 10)
    alone = averages_of(*[0.001] * 500, *[0.004] * 10)
    assert together.cost_of("task") == pytest.approx(alone.cost_of("task"))


def test_one_long_run_makes_a_task_long_for_many_runs_to_come():
    seconds = [0.0001] * 200 + [10.0]
    assert averages_of(*seconds).costs() == {}
    assert averages_of(*seconds, *[0.0001] * 50).costs() == {}
    assert averages_of(*seconds, *[0.0001] * 500).cost_of("task") < AHEAD_SECONDS


def test_averages_of_the_tasks_that_ran_last_are_kept():
    averages = Averages()
    for number in range(2 * MOST_TASKS):
        averages.add([(f"task {number}", 0.001)] * FEWEST_RUNS)
        averages.add([("often", 0.001)])
    assert len(averages.by_task) == MOST_TASKS
    assert "often" in averages.by_task


# What a claim takes ahead


@shared_queue
def test_claim_ends_before_the_first_job_that_must_not_wait_in_a_worker():
    jobs = enqueue_many([tasks.noop.bind() for _ in range(6)])
    jobs += [enqueue(tasks.echo, 1), enqueue(tasks.noop)]
    claimed = Hand().record_and_claim(
        limit=2, look=looks.first_look(20), ahead=Ahead(20, 1.0, COSTS)
    )
    assert [job.id for job in claimed.jobs] == [job.pk for job in jobs[:6]]
    assert not claimed.has_more


@shared_queue
def test_free_slots_are_filled_whatever_is_in_line():
    jobs = [enqueue(tasks.echo, 1), *enqueue_many([tasks.noop.bind()] * 2)]
    claimed = Hand().record_and_claim(
        limit=2, look=looks.first_look(20), ahead=Ahead(20, 1.0, COSTS)
    )
    # Nothing waits behind a job that may take long.
    assert [job.id for job in claimed.jobs] == [job.pk for job in jobs[:2]]


@shared_queue
def test_busy_worker_claims_only_what_fits_into_the_time_of_its_slots():
    jobs = enqueue_many([tasks.noop.bind() for _ in range(9)])
    claimed = Hand().record_and_claim(
        limit=0, look=looks.first_look(9), ahead=Ahead(9, 0.0045, COSTS)
    )
    assert [job.id for job in claimed.jobs] == [job.pk for job in jobs[:4]]


@shared_queue
@pytest.mark.parametrize(
    "options",
    [
        {"lock": "door"},
        {"limit_key": "key", "max_running": 9},
        {"rate": "9/minute"},
        {"process_units": 2},
        {"max_crashes": 2},
        {"max_crashes": 1},
    ],
)
def test_job_that_must_not_wait_in_a_worker_is_left_to_a_free_slot(options):
    hand, ahead = Hand(), Ahead(9, 1.0, COSTS)
    job = tasks.noop.using(**options).enqueue()
    admit()
    look = looks.first_look(9)
    assert hand.record_and_claim(limit=0, look=look, ahead=ahead).jobs == []
    (claimed,) = hand.record_and_claim(
        limit=1, look=look, ahead=ahead, is_idle=True
    ).jobs
    assert claimed.id == job.pk


def test_look_that_brought_more_than_for_the_free_slots_may_have_left_some():
    schedule = PollSchedule(poll=60)
    schedule.plan(claimed_with(jobs=3), limit=2, promoted=True, now=0.0)
    assert schedule.may_hold_more
    schedule.plan(claimed_with(jobs=1), limit=2, promoted=True, now=0.0)
    assert not schedule.may_hold_more


def claimed_with(jobs: int) -> Claimed:
    job = ClaimedJob._make([None] * len(ClaimedJob._fields))
    job = job._replace(crashes=0, max_crashes=3)
    return Claimed(
        recorded=set(),
        has_keys=False,
        next_due=None,
        met_suspect=False,
        met_locked=False,
        met_expired=False,
        has_more=False,
        seconds=0.0,
        at=datetime.now(UTC),
        jobs=[job] * jobs,
    )


# The worker


@pytest.fixture
def patient(monkeypatch):
    """Let a busy machine count as quick; nothing goes back because it has waited."""
    monkeypatch.setattr(prefetching, "AHEAD_SECONDS", 60.0)
    monkeypatch.setattr(prefetching, "LONGEST_WAIT", 600.0)


@pytest.fixture
def claims(monkeypatch) -> list[int]:
    """Collect how many jobs each claim brings."""
    numbers = []
    record_and_claim = claiming.record_and_claim

    def counting(*args, **named):
        claimed = record_and_claim(*args, **named)
        numbers.append(len(claimed.jobs))
        return claimed

    monkeypatch.setattr(claiming, "record_and_claim", counting)
    return numbers


@shared_queue
@pytest.mark.usefixtures("patient")
def test_worker_claims_many_jobs_at_once_that_it_knows_to_be_short(claims):
    enqueue_many([tasks.noop.bind() for _ in range(300)])
    assert drain(slots=2, prefetch="auto").finished == 300
    assert max(claims) > 20
    assert not Job.objects.filter(attempts__gt=1).exists()


@shared_queue
def test_worker_claims_no_more_than_it_has_slots_of_jobs_that_take_long(claims):
    enqueue_many([tasks.sleep.bind(0.02) for _ in range(40)])
    assert drain(slots=2, prefetch="auto").finished == 40
    assert max(claims) <= 2  # the first claim may come with an admission


@shared_queue
@pytest.mark.usefixtures("patient")
def test_worker_of_a_host_with_units_claims_for_its_slots_only(claims):
    enqueue_many([tasks.noop.bind() for _ in range(60)])
    assert drain(slots=2, units=9, prefetch="auto").finished == 60
    assert max(claims) <= 2  # the first claim may come with an admission


@shared_queue
@pytest.mark.usefixtures("patient")
def test_worker_claims_ahead_no_more_than_it_is_to_run():
    enqueue_many([tasks.noop.bind() for _ in range(90)])
    worker = WorkerThread(max_jobs=45, slots=2, prefetch="auto")
    assert worker.join() == ExitCode.STOPPED
    assert Job.objects.finished().count() == 45
    assert not Job.objects.ready().filter(attempts__gt=0).exists()


def held_up(path: str, number: int = 6) -> list[Job]:
    """Enqueue jobs of a task that was short until now and does not end any more."""
    tasks.let_go(f"{path} short")
    enqueue_many([tasks.hold.bind(f"{path} short") for _ in range(3 * FEWEST_RUNS)])
    wait_for_all("SUCCESSFUL")
    return enqueue_many([tasks.hold.bind(path) for _ in range(number)])


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


@shared_queue
@pytest.mark.usefixtures("patient")
def test_worker_that_stops_gives_back_what_no_slot_has_begun(path):
    with WorkerThread(slots=2, prefetch="auto") as worker:
        jobs = held_up(path)
        wait_for(lambda: Job.objects.running().count() == 6, "all are claimed")
        worker.loop.stop()
        for job in jobs[2:]:
            wait_for_status(job, "READY")
            assert (job.failures, job.crashes) == (0, 0)
        tasks.let_go(path)
        assert worker.join() == ExitCode.STOPPED
    assert Job.objects.ready().count() == 4


@shared_queue
def test_jobs_that_wait_for_too_long_go_to_another_worker(path, monkeypatch):
    monkeypatch.setattr(prefetching, "AHEAD_SECONDS", 60.0)
    with running_worker(slots=2, prefetch="auto", poll=600) as first:
        held_up(path)
        wait_for(lambda: len(tasks.lines(path)) == 2, "the slots are taken")
        wait_for(lambda: Job.objects.ready().count() == 4, "the others are back")
        wait_for(lambda: len(first.in_flight) == 2, "the worker knows")
        with running_worker(slots=4, poll=600):
            wait_for(lambda: len(tasks.lines(path)) == 6, "another worker runs them")
            tasks.let_go(path)
            wait_for_all("SUCCESSFUL")


@shared_queue
@pytest.mark.usefixtures("patient")  # so nothing goes back that was claimed wrongly
def test_two_workers_run_short_and_long_jobs_side_by_side(claims, path):
    """No short job waits in a worker behind a long one, however they are mixed."""
    enqueue_many([tasks.noop.bind() for _ in range(100)])
    with (
        running_worker(slots=2, prefetch="auto"),
        running_worker(slots=2, prefetch="auto"),
    ):
        wait_for_all("SUCCESSFUL")
        part = [tasks.noop.bind()] * 20
        long = [tasks.hold.bind(path)]
        enqueue_many([*part, *long, *part, *long, *part, *long, *part])
        wait_for(lambda: len(tasks.lines(path)) == 3, "all long jobs run")
        running = Job.objects.running().filter(task=tasks.hold.name)
        assert running.values("worker_id").distinct().count() == 2
        enqueue_many(part)
        # One slot is left, and it runs all that the others have not begun.
        short = Job.objects.filter(task=tasks.noop.name, finished_at=None)
        wait_for(lambda: not short.exists(), "all short jobs have ended")
        tasks.let_go(path)
        wait_for_all("SUCCESSFUL")
    assert max(claims) > 2
    assert Job.objects.filter(crashes=0, failures=0).count() == 203
    assert not Job.objects.filter(attempts__gt=1).exists()


@shared_queue
def test_command_takes_auto(capsys):
    enqueue(tasks.noop)
    call_command("runjobs", "--drain", "--prefetch", "auto")
    assert "Completed 1 job" in capsys.readouterr().out


# A worker that dies


def claimed_ahead() -> tuple[Hand, ClaimedJob]:
    hand = Hand()
    (job,) = hand.record_and_claim(
        look=looks.first_look(1), ahead=Ahead(1, 1.0, COSTS)
    ).jobs
    return hand, job


def lose(hand: Hand) -> Job:
    """Let a worker die under its only job; return the job as the rescue leaves it."""
    hand.vanish()
    Hand("rescuer").rescue()
    return Job.objects.get()


@shared_queue
def test_death_of_a_worker_is_no_crash_of_a_job_that_waited_in_it():
    enqueue(tasks.noop)
    job = lose(claimed_ahead()[0])
    assert (job.status, job.attempts, job.crashes) == ("READY", 1, 0)
    assert job.reason == "Worker lost, perhaps before the job began."
    assert Attempt.objects.get().outcome == "CRASHED"


@shared_queue
def test_job_waits_in_a_worker_only_once():
    enqueue(tasks.noop)
    lose(claimed_ahead()[0])
    claimed = Hand().record_and_claim(
        look=looks.first_look(1), ahead=Ahead(1, 1.0, COSTS)
    )
    assert claimed.jobs == []


@shared_queue
@pytest.mark.parametrize("most", [3, 4])
def test_job_that_kills_its_process_fails_after_as_many_crashes_as_any_other(most):
    """The first of them was none, as long as the job might not have begun."""
    enqueue(tasks.noop.using(max_crashes=most))
    crashes = [lose(claimed_ahead()[0]).crashes]
    while Job.objects.get().status == "READY":
        hand = Hand()
        hand.claim_one()
        crashes.append(lose(hand).crashes)
    assert crashes == [0, *range(2, most + 1)]
    assert Job.objects.get().status == "FAILED"
    assert Attempt.objects.count() == most


@shared_queue
def test_job_that_was_claimed_ahead_is_recorded_as_any_other():
    enqueue(tasks.noop)
    hand, claimed = claimed_ahead()
    assert hand.succeed(claimed)
    job = Job.objects.get()
    assert job.last_attempted_at < job.started_at <= job.finished_at


@shared_queue
def test_admission_passes_beside_claims_ahead(caplog):
    with running_worker(slots=2, prefetch="auto"):
        enqueue_many([tasks.noop.bind() for _ in range(50)])
        wait_for_all("SUCCESSFUL")  # so the worker knows that the task is short
        enqueue_many([tasks.noop.bind() for _ in range(1_000)])
        enqueue_many([tasks.noop.using(lock="one").bind() for _ in range(20)])
        wait_for_all("SUCCESSFUL")
    assert "admit" not in caplog.text
