"""`--prefetch`: the worker holds what its slots will begin within moments."""

from collections import deque
from math import inf

import pytest
from django.core.management import call_command

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Attempt, Job
from pgjobs.queue import claiming
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.worker import ExitCode, claimer, stopping
from pgjobs.worker.claimer import PREFETCH_SECONDS, Capacity
from pgjobs.worker.in_flight import InFlight
from pgjobs.worker.options import WorkerOptions
from pgjobs.worker.stopping import Lifetime
from pgjobs.worker.upkeep.admission import Admitting
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

# How many jobs a worker prefetches


class Slots:
    """An executor some of whose slots run something long."""

    def __init__(self, long: int = 0):
        self.long = long
        self.given_up = 0
        self.runs: deque[float] = deque()
        self.submitted = 0

    def running_for(self, seconds: float) -> int:
        return self.long


class Beating:
    silent_at = inf


def capacity(*runs: float, long: int = 0, **options) -> Capacity:
    """Return the capacity of a worker whose latest jobs took this long."""
    slots, how = Slots(long), WorkerOptions(slots=4, **options)
    made = Capacity(
        how,
        slots,
        InFlight(),
        lifetime=Lifetime(how, slots),
        heartbeat=Beating(),
        admitting=Admitting(),
    )
    slots.runs = deque(runs)
    return made


def seconds_of(*passes: list[float]) -> float:
    """Return what a worker takes for the average after passes with such runs."""
    measured = capacity(prefetch=1)
    for runs in passes:
        measured.executor.runs.extend(runs)
        measured.measure()
    return measured.seconds


SHORT = [0.001] * 500


def test_worker_takes_its_jobs_for_long_until_some_have_run():
    assert capacity(prefetch=9).to_prefetch(0, 4) == 0
    assert capacity(*SHORT[:5], prefetch=9).to_prefetch(0, 4) == 0
    assert capacity(*SHORT, prefetch=9).to_prefetch(0, 4) == 9
    assert seconds_of(SHORT) == pytest.approx(0.001, rel=0.01)


def test_long_runs_make_all_runs_long_for_a_while():
    long = [10.0] * 5
    assert seconds_of(SHORT, long) > PREFETCH_SECONDS
    assert seconds_of(SHORT, long, SHORT) < PREFETCH_SECONDS


def test_one_long_run_among_many_short_ones_counts_for_little():
    assert seconds_of([*SHORT, 600.0]) < PREFETCH_SECONDS / 2


def test_it_matters_little_which_run_of_a_pass_was_long():
    first, last = seconds_of(SHORT, [0.01, *SHORT]), seconds_of(SHORT, [*SHORT, 0.01])
    assert first == pytest.approx(last)


@pytest.mark.parametrize(
    ("held", "left", "long", "most", "expected"),
    [
        (0, None, 0, "auto", 16),  # in 5 ms four slots begin twenty, four of them now
        (0, None, 0, 9, 9),
        (4, None, 0, 9, 9),
        (7, None, 0, 9, 6),
        (30, None, 0, 9, 0),
        (0, 9, 0, 9, 5),
        (0, None, 2, 9, 6),
        (0, None, 4, 9, 0),
    ],
)
def test_worker_prefetches_what_its_slots_begin_within_moments(
    held, left, long, most, expected
):
    has = capacity(*[0.00099] * 600, long=long, prefetch=most, max_jobs=left)
    assert has.to_prefetch(held, has.free_slots(held)) == expected


def test_worker_that_does_not_prefetch_claims_for_its_slots_only():
    admitted = capacity(*SHORT).room(now=0.0)
    assert (admitted.slots, admitted.prefetched) == (4, 0)


def test_claim_prefetches_few_jobs_where_the_last_one_has_brought_few():
    has = capacity(*[0.0001] * 600, prefetch=15)
    asked = []
    for brings in (0, 4, 5, 9, 15):
        asked.append(has.to_prefetch(0, 4))
        has.brought(asked[-1], brings)
    assert asked == [15, 4, 8, 9, 15]


def test_claim_prefetches_many_jobs_after_one_that_had_room_for_few():
    has = capacity(*[0.0001] * 600, prefetch=150)
    few = has.to_prefetch(150, 0)
    assert few == 4
    has.brought(few, few)
    assert has.to_prefetch(4, 0) == 150


# What a claim prefetches


@shared_queue
def test_claim_ends_before_the_first_job_that_must_not_wait_in_a_worker():
    jobs = enqueue_many([tasks.noop.bind() for _ in range(6)])
    jobs += [enqueue(tasks.noop.using(max_crashes=2)), enqueue(tasks.noop)]
    claimed = Hand().record_and_claim(
        limit=2, fetch=claiming.first_fetch(40), prefetched=20
    )
    assert [job.id for job in claimed.jobs] == [job.pk for job in jobs[:6]]
    assert not claimed.has_more


@shared_queue
def test_free_slots_are_filled_whatever_is_ready():
    jobs = [enqueue(tasks.noop.using(max_crashes=2)) for _ in range(3)]
    claimed = Hand().record_and_claim(
        limit=2, fetch=claiming.first_fetch(22), prefetched=20
    )
    assert [job.id for job in claimed.jobs] == [job.pk for job in jobs[:2]]


@shared_queue
@pytest.mark.parametrize(
    "options",
    [
        {"lock": "door"},
        {"limit_key": "key", "max_running": 9},
        {"rate": "9/minute"},
        {"max_crashes": 2},
        {"max_crashes": 1},
    ],
)
def test_job_that_must_not_wait_in_a_worker_is_left_to_a_free_slot(options):
    check_that_it_is_left(options)


def check_that_it_is_left(options: dict) -> None:
    hand, prefetched = Hand(), 9
    job = tasks.noop.using(**options).enqueue()
    admit()
    fetch = claiming.first_fetch(9)
    assert hand.record_and_claim(limit=0, fetch=fetch, prefetched=prefetched).jobs == []
    (claimed,) = hand.record_and_claim(
        limit=1, fetch=fetch, prefetched=prefetched, is_idle=True
    ).jobs
    assert claimed.id == job.pk


# The worker


@pytest.fixture
def knowing(monkeypatch):
    """Let a busy machine count as quick, and the worker take its jobs for short."""

    def take_for_short(capacity):
        capacity.seconds = 0.001

    monkeypatch.setattr(claimer, "PREFETCH_SECONDS", 60.0)
    monkeypatch.setattr(Capacity, "measure", take_for_short)
    monkeypatch.setattr(Capacity, "brought", lambda *_: None)


@pytest.fixture
def patient(knowing, monkeypatch):
    """Let nothing go back because it has waited."""
    monkeypatch.setattr(stopping, "LONGEST_WAIT", 600.0)


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
    assert drain(slots=2, prefetch=200).finished == 300
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
def test_worker_prefetches_no_more_than_it_is_to_run():
    enqueue_many([tasks.noop.bind() for _ in range(90)])
    worker = WorkerThread(max_jobs=45, slots=2, prefetch="auto")
    assert worker.join() == ExitCode.STOPPED
    assert Job.objects.finished().count() == 45
    assert not Job.objects.ready().filter(attempts__gt=0).exists()


def held_up(path: str, number: int = 6) -> list[Job]:
    """Enqueue jobs of a task that was short until now and does not end any more."""
    tasks.let_go(f"{path} short")
    enqueue_many([tasks.hold.bind(f"{path} short") for _ in range(30)])
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
@pytest.mark.usefixtures("knowing")
def test_jobs_that_wait_for_too_long_go_to_another_worker(path):
    with running_worker(slots=2, prefetch="auto", poll=600) as first:
        held_up(path)
        wait_for(lambda: len(tasks.lines(path)) == 2, "the slots are taken")
        back = Job.objects.ready().filter(attempts=1)
        wait_for(lambda: back.count() == 4, "the others are back")
        wait_for(lambda: len(first.in_flight.jobs) == 2, "the worker knows")
        with running_worker(slots=4, poll=600):
            wait_for(lambda: len(tasks.lines(path)) == 6, "another worker runs them")
            tasks.let_go(path)
            wait_for_all("SUCCESSFUL")


@shared_queue
def test_two_workers_run_short_and_long_jobs_side_by_side(claims, path):
    """No short job waits for long in a worker behind a long one."""
    enqueue_many([tasks.noop.bind() for _ in range(400)])
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
    assert Job.objects.filter(crashes=0, failures=0).count() == 503
    assert not Job.objects.filter(attempts__gt=2).exists(), "it waits only once"


@shared_queue
def test_command_takes_auto(capsys):
    enqueue(tasks.noop)
    call_command("runjobs", "--drain", "--prefetch", "auto")
    assert "Completed 1 job" in capsys.readouterr().out


# A worker that dies


def prefetched() -> tuple[Hand, ClaimedJob]:
    hand = Hand()
    (job,) = hand.record_and_claim(fetch=claiming.first_fetch(1), prefetched=1).jobs
    return hand, job


def lose(hand: Hand) -> Job:
    """Let a worker die under its only job; return the job as the rescue leaves it."""
    hand.vanish()
    Hand("rescuer").rescue()
    return Job.objects.get()


@shared_queue
def test_death_of_a_worker_is_no_crash_of_a_job_that_waited_in_it():
    enqueue(tasks.noop)
    job = lose(prefetched()[0])
    assert (job.status, job.attempts, job.crashes) == ("READY", 1, 0)
    assert job.reason == "Worker lost, perhaps before the job began."
    assert Attempt.objects.get().outcome == "CRASHED"


@shared_queue
def test_job_waits_in_a_worker_only_once():
    enqueue(tasks.noop)
    lose(prefetched()[0])
    claimed = Hand().record_and_claim(fetch=claiming.first_fetch(1), prefetched=1)
    assert claimed.jobs == []


@shared_queue
@pytest.mark.parametrize("most", [3, 4])
def test_job_that_kills_its_process_fails_after_as_many_crashes_as_any_other(most):
    """The first of them was none, as long as the job might not have begun."""
    enqueue(tasks.noop.using(max_crashes=most))
    crashes = [lose(prefetched()[0]).crashes]
    while Job.objects.get().status == "READY":
        hand = Hand()
        hand.claim_one()
        crashes.append(lose(hand).crashes)
    assert crashes == [0, *range(2, most + 1)]
    assert Job.objects.get().status == "FAILED"
    assert Attempt.objects.count() == most


@shared_queue
def test_job_that_was_prefetched_is_recorded_as_any_other():
    enqueue(tasks.noop)
    hand, claimed = prefetched()
    assert hand.succeed(claimed)
    job = Job.objects.get()
    assert job.last_attempted_at < job.started_at <= job.finished_at


@shared_queue
def test_admission_passes_beside_prefetching_claims(caplog):
    with running_worker(slots=2, prefetch="auto"):
        enqueue_many([tasks.noop.bind() for _ in range(50)])
        wait_for_all("SUCCESSFUL")  # so the worker knows that the task is short
        enqueue_many([tasks.noop.bind() for _ in range(1_000)])
        enqueue_many([tasks.noop.using(lock="one").bind() for _ in range(20)])
        wait_for_all("SUCCESSFUL")
    assert "admit" not in caplog.text
