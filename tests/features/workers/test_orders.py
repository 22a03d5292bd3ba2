"""Workers hear what operators want of them: to be quiet, to go on, to stop."""

from django.db import connection

from pgjobs import enqueue, enqueue_many
from pgjobs.features.workers.queue import order
from pgjobs.models import EndedWorker, Job, Worker
from pgjobs.models.worker import QUIET, STOP
from pgjobs.reports.status import overview
from pgjobs.worker import ExitCode
from tests import tasks
from tests.actors import Hand, session
from tests.processes import (
    SOON,
    WorkerThread,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_pass,
    wait_for_status,
)

pytestmark = shared_queue


def path_of(tmp_path) -> str:
    return str(tmp_path / "gate")


def begin(gate: str) -> Job:
    """Return a job that runs until the gate is opened."""
    job = enqueue(tasks.hold, gate)
    wait_for_status(job, "RUNNING")
    return job


def stop(worker: WorkerThread) -> None:
    """Order the worker to stop, and wait until it knows."""
    order("default", [worker.loop.id], STOP)
    wait_for(lambda: worker.loop.lifetime.signals, "the worker has heard")


def has_heard(loop) -> bool:
    return loop.lifetime.is_quiet


def test_quiet_worker_finishes_what_it_has_and_takes_no_more(tmp_path):
    gate = path_of(tmp_path)
    with running_worker(slots=2, poll=0.1) as loop:
        begun = begin(gate)
        assert order("default", [loop.id], QUIET) == 1
        wait_for(lambda: has_heard(loop), "the worker has heard")
        later = enqueue(tasks.noop)
        wait_for_pass(loop)
        tasks.let_go(gate)
        wait_for_status(begun, "SUCCESSFUL")
        wait_for_pass(loop)
        later.refresh_from_db()
        assert later.status == "READY"
        assert loop.phase == "running"
        assert order("default", [loop.id], "") == 1
        wait_for_status(later, "SUCCESSFUL")


def test_quiet_worker_with_prefetched_jobs_loses_none(tmp_path):
    enqueue_many([tasks.sleep.bind(0.01) for _ in range(200)])
    with running_worker(slots=2, prefetch=20, poll=0.1) as loop:
        wait_for(lambda: Job.objects.finished().exists(), "some have run")
        order("default", [loop.id], QUIET)
        wait_for(lambda: has_heard(loop), "the worker has heard")
        wait_for(lambda: not Job.objects.running().exists(), "it has ended what it had")
        left = Job.objects.ready().count()
        wait_for_pass(loop)
        assert Job.objects.ready().count() == left
        order("default", [loop.id], "")
        wait_for_all("SUCCESSFUL")
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}


def test_stopped_worker_drains_as_after_sigterm(tmp_path):
    gate = path_of(tmp_path)
    with WorkerThread(slots=2, poll=0.1, grace=60) as worker:
        begun = begin(gate)
        id = worker.loop.id
        assert order("default", [id], STOP) == 1
        wait_for(lambda: worker.loop.lifetime.signals, "the worker has heard")
        later = enqueue(tasks.noop)
        assert Worker.objects.filter(pk=id).exists()
        tasks.let_go(gate)
        assert worker.join() == ExitCode.STOPPED
    begun.refresh_from_db()
    later.refresh_from_db()
    assert (begun.status, later.status) == ("SUCCESSFUL", "READY")
    assert EndedWorker.objects.get(worker_id=id).how == "asked"


def test_signal_after_an_order_to_stop_is_the_first_one(tmp_path):
    gate = path_of(tmp_path)
    with WorkerThread(slots=1, poll=0.1, grace=60) as worker:
        begun = begin(gate)
        stop(worker)
        worker.loop.stop()
        assert worker.loop.lifetime.signals == 1
        tasks.let_go(gate)
        assert worker.join() == ExitCode.STOPPED
    begun.refresh_from_db()
    assert (begun.status, begun.attempts) == ("SUCCESSFUL", 1)


def test_second_signal_after_an_order_to_stop_releases_at_once(tmp_path):
    gate = path_of(tmp_path)
    with WorkerThread(slots=1, poll=0.1, grace=60) as worker:
        begin(gate)
        stop(worker)
        for _ in range(2):
            worker.loop.stop()
        assert worker.join() == ExitCode.SECOND_SIGNAL
        tasks.let_go(gate)


def test_stopped_worker_that_is_stuck_ends_after_its_grace(start_worker, tmp_path):
    path = path_of(tmp_path)
    stuck = {"settings": {"TASK_MODULES": ["tests.support.stuck"]}, "STUCK": path}
    worker = start_worker("--grace", "0", **stuck)
    wait_for(lambda: tasks.lines(path), "its main thread is stuck")
    order("default", Worker.objects.values_list("pk", flat=True), STOP)
    assert worker.wait(SOON) == ExitCode.GRACE_OVER


def test_stopped_worker_gives_back_what_does_not_end_within_its_grace(tmp_path):
    gate = path_of(tmp_path)
    with WorkerThread(slots=1, poll=0.1, grace=0.2) as worker:
        begun = begin(gate)
        order("default", [worker.loop.id], STOP)
        assert worker.join() == ExitCode.GRACE_OVER
        begun.refresh_from_db()
        assert (begun.status, begun.crashes) == ("READY", 0)
        tasks.let_go(gate)


def test_worker_that_cannot_listen_hears_at_its_next_sign_of_life(settings):
    settings.PGJOBS = {**settings.PGJOBS, "HEARTBEAT_INTERVAL": 0.2}
    with running_worker(slots=1, poll=0.1, listen=False) as loop:
        order("default", [loop.id], QUIET)
        wait_for(lambda: has_heard(loop), "the worker has heard")


def test_quiet_worker_whose_row_was_deleted_stays_quiet():
    with running_worker(slots=1, poll=0.1) as loop:
        order("default", [loop.id], QUIET)
        wait_for(lambda: has_heard(loop), "the worker has heard")
        Worker.objects.all().delete()
        loop.heartbeat.beat_soon()
        row = wait_for(lambda: Worker.objects.first(), "its row is back")
        assert (row.pk, row.wanted) == (loop.id, QUIET)


def test_stopping_worker_does_not_go_back_on_it():
    with WorkerThread(slots=1, poll=0.1) as worker:
        wait_for(lambda: worker.loop.phase == "running", "the worker has started")
        id = worker.loop.id
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pgjobs_worker SET wanted = 'stop' WHERE id = %s", [id]
            )
        assert order("default", [id], "") == 0
        assert order("default", [id], QUIET) == 0
        worker.loop.heartbeat.beat_soon()
        assert worker.join() == ExitCode.STOPPED


def test_admissions_sweep_when_a_worker_goes_on():
    hand = Hand("slow", queues="slow")
    with session() as ear:
        ear.listen("pgjobs_admission")
        order("default", [hand.id], QUIET)
        assert ear.heard() == []
        order("default", [hand.id], "")
        assert ear.heard() == [("pgjobs_admission", "sweep")]


def test_queue_of_quiet_workers_is_not_served():
    enqueue(tasks.noop.using(queue_name="slow"))
    Job.objects.update(enqueued_at="2020-01-01T00:00Z")
    with running_worker(slots=1, poll=0.1, queues=("other",)) as loop:
        Worker.objects.update(queues="slow")
        assert not any("slow" in each for each in overview("default").problems)
        order("default", [loop.id], QUIET)
        (problem,) = [each for each in overview("default").problems if "slow" in each]
        assert "no worker serves it" in problem


def test_any_text_in_the_row_lets_a_worker_be_quiet_and_nothing_else():
    with running_worker(slots=1, poll=0.1) as loop:
        order("default", [loop.id], "☃" * 10)
        wait_for(lambda: has_heard(loop), "the worker has heard")
        assert loop.lifetime.signals == 0
