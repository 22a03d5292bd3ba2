"""How a worker stops: signals, the grace, limits and exit codes."""

import signal
import threading
import time

import pytest
from psycopg import OperationalError

from pgjobs import enqueue, enqueue_many, signals
from pgjobs.features import modules
from pgjobs.models import Attempt, Job, Worker
from pgjobs.queue import recording
from pgjobs.worker import ExitCode, Loop, WorkerOptions
from pgjobs.worker.upkeep import announcer, chores
from tests import tasks
from tests.processes import (
    SOON,
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

SHORT_LEASE = {"HEARTBEAT_INTERVAL": 0.2, "LEASE_DURATION": 1}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


def start_holding(start_worker, path, *arguments, **how):
    """Start a worker process that runs one job, which ends when the test lets go."""
    job = enqueue(tasks.hold, path)
    worker = start_worker("--concurrency", "1", *arguments, **how)
    wait_for(lambda: tasks.lines(path), "the job runs")
    return worker, job


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_job_may_end_within_the_grace(start_worker, path, number):
    worker, job = start_holding(start_worker, path)
    late = enqueue(tasks.noop)
    worker.send(number)
    wait_for(lambda: "Stopping" in worker.printed, "it has taken the signal")
    tasks.let_go(path)
    assert worker.wait() == ExitCode.STOPPED
    job.refresh_from_db()
    assert (job.status, job.return_value) == ("SUCCESSFUL", worker.pid)
    late.refresh_from_db()
    assert (late.status, late.attempts) == ("READY", 0)
    assert "Completed 1 job\n" in worker.printed
    assert not Worker.objects.exists()


@pytest.mark.parametrize(
    ("signals", "grace", "code"),
    [
        ([signal.SIGTERM], "0.2", ExitCode.GRACE_OVER),
        ([signal.SIGINT], "0", ExitCode.GRACE_OVER),
        # Two of a kind at once may be one.
        ([signal.SIGINT, signal.SIGTERM], "60", ExitCode.SECOND_SIGNAL),
    ],
)
def test_job_that_does_not_end_in_time_is_released(
    start_worker, path, signals, grace, code
):
    worker, job = start_holding(start_worker, path, "--grace", grace)
    for number in signals:
        worker.send(number)
    assert worker.wait(timeout=SOON) == code
    job.refresh_from_db()
    assert (job.status, job.attempts, job.failures, job.crashes) == ("READY", 1, 0, 0)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.outcome, attempt.message) == (
        "RELEASED",
        "Released: the worker stopped.",
    )
    assert "Released jobs=1" in worker.printed
    assert not Worker.objects.exists()


def test_idle_worker_stops_at_once(start_worker):
    worker = start_worker("--poll", "600")
    begun = time.monotonic()
    assert worker.stop() == ExitCode.STOPPED
    assert time.monotonic() - begun < SOON


def test_signal_before_the_worker_is_up_stops_it_too(start_worker):
    """The process holds no job: the signal itself may end it, as any program."""
    job = enqueue(tasks.noop)
    worker = start_worker(registered=False)
    assert worker.stop() in (-signal.SIGTERM, ExitCode.STOPPED)
    job.refresh_from_db()
    assert (job.status, job.crashes) in (("READY", 0), ("SUCCESSFUL", 0))


def test_worker_that_is_stopped_before_it_starts_claims_nothing():
    job = enqueue(tasks.noop)
    loop = Loop(WorkerOptions())
    loop.stop()
    assert loop.run() == ExitCode.STOPPED
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("READY", 0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("grace", [0.0, 60.0])
def test_prefetched_jobs_that_no_slot_has_begun_are_released_at_once(path, grace):
    held = enqueue(tasks.hold, path)
    waiting = [enqueue(tasks.noop) for _ in range(3)]
    with WorkerThread(slots=1, prefetch=3, grace=grace) as worker:
        wait_for(lambda: Job.objects.running().count() == 4, "all are claimed")
        wait_for(lambda: tasks.lines(path), "the first one runs")
        worker.loop.stop()
        for job in waiting:
            wait_for_status(job, "READY", timeout=SOON)
            assert (job.attempts, job.failures) == (1, 0)
        tasks.let_go(path)
        code = worker.join()
    held.refresh_from_db()
    if grace:
        assert (code, held.status) == (ExitCode.STOPPED, "SUCCESSFUL")
    else:
        assert (code, held.status) == (ExitCode.GRACE_OVER, "READY")


def test_job_that_ends_as_the_grace_does_is_not_run_again(path, monkeypatch):
    """An outcome that is there when the worker gives up is recorded, not released."""
    job = enqueue(tasks.hold, path)
    with WorkerThread(slots=1, grace=0) as worker:
        wait_for(lambda: tasks.lines(path), "the job runs")
        abandon = worker.loop.stopping.abandon

        def abandon_a_moment_later():
            tasks.let_go(path)
            wait_for(lambda: worker.loop.executor.outcomes, "the job has ended")
            return abandon()

        monkeypatch.setattr(worker.loop.stopping, "abandon", abandon_a_moment_later)
        assert worker.stop() == ExitCode.STOPPED
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


@pytest.mark.parametrize("is_stuck", [False, True])
def test_ends_are_announced_before_a_worker_with_two_signals_ends(
    path, is_stuck, monkeypatch
):
    monkeypatch.setattr("pgjobs.worker.stopping.LAST_SECONDS", 0.5 if is_stuck else 20)
    begun, go_on, announced = threading.Event(), threading.Event(), []

    def receive(sender, job, **kwargs):
        begun.set()
        go_on.wait(60)
        announced.append(job.pk)

    signals.job_finished.connect(receive)
    try:
        enqueue(tasks.hold, path)
        with WorkerThread(slots=2, poll=600) as worker:
            wait_for(lambda: tasks.lines(path), "the job runs")
            jobs = [enqueue(tasks.noop) for _ in range(3)]
            assert begun.wait(60)
            wait_for_status(jobs[-1], "SUCCESSFUL")
            if not is_stuck:
                threading.Timer(0.2, go_on.set).start()
            worker.loop.stop()
            worker.loop.stop()
            assert worker.join(timeout=SOON) == ExitCode.SECOND_SIGNAL
        assert announced == ([] if is_stuck else [job.pk for job in jobs])
    finally:
        go_on.set()
        tasks.let_go(path)
        signals.job_finished.disconnect(receive)


def test_worker_that_waits_for_a_receiver_of_its_start_says_so(monkeypatch, caplog):
    monkeypatch.setattr(announcer, "LONGEST_CALL", 0.1)
    go_on = threading.Event()

    def receive(sender, worker, **kwargs):
        go_on.wait()

    signals.worker_started.connect(receive)
    try:
        job = enqueue(tasks.noop)
        with WorkerThread(poll=600):
            wait_for(lambda: "keeps the worker waiting" in caplog.text, "it says so")
            job.refresh_from_db()
            assert job.status == "READY"
            go_on.set()
            wait_for_status(job, "SUCCESSFUL")
    finally:
        go_on.set()
        signals.worker_started.disconnect(receive)


def test_worker_stops_although_the_announcement_of_an_end_is_stuck(monkeypatch, caplog):
    """Its SELECT may wait on a connection that went silent."""
    monkeypatch.setattr(announcer, "LONGEST_CALL", 0.5, raising=False)
    begun, go_on = threading.Event(), threading.Event()

    def receive(sender, job, **kwargs):
        begun.set()
        go_on.wait()

    signals.job_finished.connect(receive)
    try:
        with WorkerThread(poll=600) as worker:
            enqueue(tasks.noop)
            assert begun.wait(SOON)
            worker.loop.stop()
            assert worker.join(timeout=SOON) == ExitCode.GRACE_OVER
        assert not Worker.objects.exists()
        assert "A receiver of a signal is stuck" in caplog.text
    finally:
        go_on.set()
        signals.job_finished.disconnect(receive)


def test_worker_that_stops_waits_for_announcements_as_long_as_one_after_another_ends(
    monkeypatch,
):
    monkeypatch.setattr(announcer, "LONGEST_CALL", 2, raising=False)
    announced = []

    def receive(sender, job, **kwargs):
        time.sleep(0.5)
        announced.append(job.pk)

    signals.job_finished.connect(receive)
    try:
        jobs = enqueue_many([tasks.noop.bind() for _ in range(6)])
        with WorkerThread(slots=6, poll=600) as worker:
            wait_for_all("SUCCESSFUL")
            assert worker.stop() == ExitCode.STOPPED
        assert sorted(announced) == sorted(job.pk for job in jobs)
    finally:
        signals.job_finished.disconnect(receive)


def test_outcome_of_a_released_job_changes_nothing(path):
    job = enqueue(tasks.hold, path)
    with WorkerThread(slots=1, grace=0) as worker:
        wait_for(lambda: tasks.lines(path), "the job runs")
        worker.loop.stop()
        assert worker.join() == ExitCode.GRACE_OVER
    with running_worker(slots=1):
        wait_for(lambda: len(tasks.lines(path)) == 2, "it runs again")
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
        wait_for(lambda: not slot_threads_of(worker), "the first run has ended")
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("SUCCESSFUL", 2)
    assert Attempt.objects.filter(job=job).count() == 1


def slot_threads_of(worker):
    worker.loop.executor.stop()
    return [each for each in worker.loop.executor.threads.alive if each.is_alive()]


def test_heartbeats_go_on_during_the_grace(start_worker, path, settings):
    """A job longer than the lease stays with a worker that shuts down."""
    worker, job = start_holding(
        start_worker, path, "--grace", "30", settings=SHORT_LEASE
    )
    settings.PGJOBS = SHORT_LEASE
    with running_worker(poll=0.1):
        worker.send(signal.SIGTERM)
        beats = set()
        while len(beats) < 7:  # more than a lease
            beats.add(Worker.objects.get(pid=worker.pid).heartbeat_at)
        tasks.let_go(path)
        assert worker.wait() == ExitCode.STOPPED
    job.refresh_from_db()
    assert (job.status, job.attempts, job.crashes) == ("SUCCESSFUL", 1, 0)


def test_other_signals_do_not_wake_or_stop_it(start_worker):
    worker = start_worker("--poll", "600")
    worker.send(signal.SIGCONT)
    worker.send(signal.SIGWINCH)
    worker.send(signal.SIGPIPE)
    wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert worker.stop() == ExitCode.STOPPED


# Limits


@pytest.mark.usefixtures("eager")
def test_worker_stops_after_as_many_jobs_as_it_may_run():
    enqueue_many([tasks.noop.bind() for _ in range(10)])
    worker = WorkerThread(max_jobs=3, slots=2, prefetch=5)
    assert worker.join() == ExitCode.STOPPED
    assert worker.loop.finished == 3
    assert Job.objects.ready().count() == 7


def test_worker_stops_after_its_time_when_its_last_job_has_ended(path):
    job = enqueue(tasks.hold, path)
    with WorkerThread(max_time=3_600, slots=1) as worker:
        wait_for(lambda: tasks.lines(path), "the job runs")
        worker.loop.lifetime.end -= 3_600
        assert worker.loop.lifetime.is_over
        late = enqueue(tasks.noop)
        assert worker.thread.is_alive()
        tasks.let_go(path)
        assert worker.join() == ExitCode.STOPPED
    job.refresh_from_db()
    late.refresh_from_db()
    assert (job.status, late.status) == ("SUCCESSFUL", "READY")


@pytest.mark.usefixtures("eager")
def test_worker_whose_time_is_over_releases_what_no_slot_has_begun(path):
    held = enqueue(tasks.hold, path)
    waiting = [enqueue(tasks.noop) for _ in range(3)]
    with WorkerThread(slots=1, prefetch=3, max_time=3_600) as worker:
        wait_for(lambda: Job.objects.running().count() == 4, "all are claimed")
        wait_for(lambda: tasks.lines(path), "the first one runs")
        worker.loop.lifetime.end -= 3_600
        worker.loop.bell.ring()
        for job in waiting:
            wait_for_status(job, "READY", timeout=SOON)
            assert (job.attempts, job.failures) == (1, 0)
        tasks.let_go(path)
        assert worker.join() == ExitCode.STOPPED
    held.refresh_from_db()
    assert held.status == "SUCCESSFUL"
    assert Job.objects.ready().count() == 3


def test_idle_worker_wakes_when_its_time_is_over(settings, monkeypatch):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    # Or one of these wakes it:
    for module in (chores, *modules("chore")):
        for name in vars(module):
            if name.endswith("_SECONDS"):
                monkeypatch.setattr(module, name, 600.0)
    assert WorkerThread(max_time=0.2, poll=600).join(timeout=SOON) == ExitCode.STOPPED


def test_no_thread_is_left_when_a_worker_has_stopped():
    before = threading.active_count()
    with running_worker():
        enqueue(tasks.noop)
        wait_for_all("SUCCESSFUL")
        assert threading.active_count() > before
    wait_for(lambda: threading.active_count() == before, "its threads have ended")


def test_release_is_tried_again_when_the_database_fails_it(path, monkeypatch):
    job = enqueue(tasks.hold, path)
    with WorkerThread(slots=1, poll=600) as worker:
        wait_for(lambda: tasks.lines(path), "the job runs")
        record, failures = recording.record, [OperationalError("gone")]

        def fail_first(*arguments):
            if failures:
                raise failures.pop()
            return record(*arguments)

        monkeypatch.setattr(recording, "record", fail_first)
        worker.loop.stop()
        assert worker.stop() == ExitCode.SECOND_SIGNAL
    job.refresh_from_db()
    assert (job.status, job.crashes, failures) == ("READY", 0, [])
    tasks.let_go(path)
