"""Death: jobs of dead workers run again, those of living ones are never taken."""

import json
import os
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.utils import timezone
from psycopg import OperationalError

from pgjobs import current_job, enqueue, signals, task
from pgjobs.base.connections import connect
from pgjobs.models import Attempt, Job, Worker
from pgjobs.queue import upkeep
from pgjobs.queue.upkeep import LOCK_CLASS
from pgjobs.worker.connections import heartbeat
from tests import tasks
from tests.actors import Hand, session, survey
from tests.processes import (
    SOON,
    WorkerThread,
    drain,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_pass,
    wait_for_status,
)

pytestmark = shared_queue

# Less than a tenth of the defaults.
BRISK = {"HEARTBEAT_INTERVAL": 0.4, "LEASE_DURATION": 1.6}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "held")


@pytest.fixture
def brisk(settings):
    settings.PGJOBS = BRISK


def start_holding(start_worker, path, *arguments, **how):
    """Start a worker process that runs one job, which ends when the test lets go."""
    job = enqueue(tasks.hold, path)
    worker = start_worker("--concurrency", "1", *arguments, **how)
    wait_for(lambda: tasks.lines(path), "the job runs")
    return worker, job


def starts(path) -> list[int]:
    """The processes in which the job was started, in order."""
    return [int(line) for line in tasks.lines(path)]


def execute(query, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall() if cursor.description else []


# Processes that die


@pytest.mark.direct
def test_job_of_a_killed_process_runs_elsewhere_within_ten_seconds(start_worker, path):
    """With the default settings; the assertion is lenient, for busy machines."""
    worker, job = start_holding(start_worker, path)
    with running_worker(slots=1):
        worker.kill()
        wait_for(lambda: len(starts(path)) == 2, "the job runs again", timeout=SOON)
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
    assert starts(path) == [worker.pid, os.getpid()]
    assert (job.attempts, job.failures, job.crashes) == (2, 0, 1)
    attempt = Attempt.objects.get(job=job)
    assert (attempt.number, attempt.outcome) == (1, "CRASHED")
    assert attempt.worker_name.endswith(f":{worker.pid}")


def test_job_of_a_killed_process_runs_when_the_only_worker_starts_again(
    start_worker, path, brisk
):
    worker, job = start_holding(start_worker, path, settings=BRISK)
    worker.kill()
    tasks.let_go(path)
    with running_worker(slots=1):
        wait_for_status(job, "SUCCESSFUL", timeout=SOON)
    assert (job.attempts, job.crashes) == (2, 1)


def test_all_jobs_of_a_killed_process_are_rescued_and_each_once(
    start_worker, path, brisk
):
    jobs = [enqueue(tasks.hold, path) for _ in range(20)]
    worker = start_worker("--concurrency", "17", settings=BRISK)
    wait_for(lambda: Job.objects.running().count() == 17, "it has claimed 17 jobs")
    with running_worker(slots=1), running_worker(slots=1):
        worker.kill()
        tasks.let_go(path)
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())
    crashes = Job.objects.filter(pk__in=[job.pk for job in jobs], crashes=1)
    assert crashes.count() == 17
    assert Attempt.objects.filter(outcome="CRASHED").count() == 17


def test_job_of_a_killed_process_that_was_to_be_cancelled_is_cancelled(
    start_worker, path, brisk
):
    worker, job = start_holding(start_worker, path, settings=BRISK)
    worker.freeze()  # or it would cancel the job itself
    job.cancel("enough")
    finished = []

    def receive(sender, job, **kwargs):
        finished.append((job.pk, job.status))

    signals.job_finished.connect(receive)
    try:
        worker.kill()
        with running_worker():
            wait_for_status(job, "CANCELLED")
            wait_for(lambda: finished, "its end is announced")
    finally:
        signals.job_finished.disconnect(receive)
    assert (job.crashes, finished) == (1, [(job.pk, "CANCELLED")])


def test_rescued_job_that_waits_for_its_lock_again_is_not_announced_as_finished(brisk):
    job = tasks.noop.using(lock="door").enqueue()
    hand = Hand()
    assert hand.claim_one().id == job.pk
    hand.vanish()
    statuses = []

    def receive(sender, job, **kwargs):
        statuses.append(job.status)

    signals.job_finished.connect(receive)
    try:
        with running_worker():
            wait_for_status(job, "SUCCESSFUL")
            wait_for(lambda: "SUCCESSFUL" in statuses, "its end is announced")
    finally:
        signals.job_finished.disconnect(receive)
    assert (job.crashes, statuses) == (1, ["SUCCESSFUL"])


# Living workers


def test_long_job_of_a_living_worker_is_started_once(start_worker, path, settings):
    short = {"HEARTBEAT_INTERVAL": 0.2, "LEASE_DURATION": 1}
    settings.PGJOBS = short
    earlier = enqueue(tasks.hold, f"{path} of another")
    # The other worker was there before, so it is the one that asks.
    with running_worker(slots=1), statements_of_workers() as executed:
        wait_for_status(earlier, "RUNNING")
        worker, job = start_holding(start_worker, path, settings=short)
        tasks.let_go(f"{path} of another")
        wait_for_status(earlier, "SUCCESSFUL")
        beats = set()
        # More than three leases, in which the other one has asked as often.
        while len(beats) < 16 or executed.count("loop chores") < 4:
            beats.add(Worker.objects.get(pid=worker.pid).heartbeat_at)
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
    assert starts(path) == [worker.pid]
    assert (job.attempts, job.crashes) == (1, 0)


def test_worker_that_was_frozen_beyond_its_lease_records_nothing(
    start_worker, path, brisk
):
    worker, job = start_holding(start_worker, path, settings=BRISK)
    worker.freeze()
    backdate_lease(worker)
    with running_worker(slots=1):
        wait_for(lambda: len(starts(path)) == 2, "the job runs elsewhere")
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
    worker.thaw()
    wait_for(lambda: "lost: it was rescued" in worker.printed, "it says so")
    assert worker.stop() == 0
    job.refresh_from_db()
    assert starts(path) == [worker.pid, os.getpid()]
    assert (job.status, job.return_value) == ("SUCCESSFUL", os.getpid())
    assert (job.attempts, job.crashes) == (2, 1)
    assert Attempt.objects.filter(job=job).count() == 1
    assert "Completed 0 jobs" in worker.printed


def backdate_lease(worker) -> None:
    """Let the time pass that the worker was allowed to be silent."""
    minute = timedelta(minutes=1)
    wait_for(
        lambda: Worker.objects.filter(pid=worker.pid).update(
            heartbeat_at=F("heartbeat_at") - minute,
            lease_until=F("lease_until") - minute,
        )
    )


def test_late_outcome_of_a_rescued_job_that_no_worker_has_claimed_is_dropped(
    start_worker, path, brisk
):
    """The row has no owner, as if this worker itself had recorded the end."""
    worker, job = start_holding(start_worker, path, settings=BRISK)
    worker.freeze()
    backdate_lease(worker)
    with running_worker(queues=("none",)):
        wait_for_status(job, "READY")
    tasks.let_go(path)
    worker.thaw()
    wait_for(lambda: "lost: it was rescued" in worker.printed, "it says so")
    wait_for_status(job, "SUCCESSFUL")  # in its second attempt
    assert starts(path) == [worker.pid] * 2
    assert (job.attempts, job.crashes) == (2, 1)


def test_late_outcome_of_a_job_that_was_failed_as_crashed_is_not_announced_again(
    start_worker, path, brisk
):
    job = tasks.hold.using(max_crashes=1).enqueue(path)
    worker = start_worker("--concurrency", "1", settings=BRISK)
    wait_for(lambda: tasks.lines(path), "the job runs")
    worker.freeze()
    backdate_lease(worker)
    with running_worker(queues=("none",)):
        wait_for_status(job, "FAILED")
    tasks.let_go(path)
    worker.thaw()
    wait_for(lambda: "lost: it was rescued" in worker.printed, "it says so")
    assert worker.stop() == 0
    assert "Completed 0 jobs" in worker.printed
    job.refresh_from_db()
    assert (job.status, job.reason) == ("FAILED", "Worker lost (crash 1 of 1).")


def test_worker_whose_row_is_deleted_is_fenced_and_comes_back(path, settings):
    """A worker without a row counts as dead, so its late outcome is dropped."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.4}  # the lease has no part in it
    job = enqueue(tasks.hold, path)
    with running_worker(slots=1) as first:
        wait_for(lambda: tasks.lines(path), "the job runs")
        with running_worker(slots=1, name="second"):

            def runs_elsewhere():
                # A beat may bring the row back before the second looks.
                Worker.objects.filter(pk=first.id).delete()
                return len(starts(path)) == 2

            wait_for(runs_elsewhere, "the job runs elsewhere")
            tasks.let_go(path)
            wait_for_status(job, "SUCCESSFUL")
        assert (job.attempts, job.crashes) == (2, 1)
        assert Attempt.objects.filter(job=job).count() == 1
        wait_for(lambda: Worker.objects.filter(pk=first.id).exists(), "its row is back")
        assert first.finished == 0
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")


@pytest.fixture
def calm_worker(settings):
    """A worker whose heartbeats are made by hand."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(poll=600) as loop:
        yield loop


def test_silent_worker_claims_nothing_before_it_has_beaten_again(calm_worker):
    """Other workers may take it for dead, and would run its claimed jobs again."""
    calm_worker.heartbeat.silent_at -= 3_601
    wait_for_pass(calm_worker)  # the claim that may be on its way began before
    job = enqueue(tasks.noop)
    wait_for_pass(calm_worker)
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("READY", 0)
    calm_worker.heartbeat.beat()
    calm_worker.bell.ring()
    wait_for_status(job, "SUCCESSFUL")


def test_beat_counts_from_when_it_was_sent(calm_worker, monkeypatch):
    """The process may be frozen for hours before it reads the answer."""
    beating, now = calm_worker.heartbeat, [1_000.0]
    execute = beating.connection.execute

    def execute_and_freeze(*arguments):
        rows = execute(*arguments)
        now[0] += 3_601
        return rows

    monkeypatch.setattr(beating.connection, "execute", execute_and_freeze)
    monkeypatch.setattr("pgjobs.worker.connections.heartbeat.monotonic", lambda: now[0])
    beating.beat()
    assert now[0] > beating.silent_at


@pytest.mark.direct
def test_worker_whose_heartbeat_is_cut_off_now_and_then_is_not_taken_for_dead(
    path, settings
):
    """Its session lock goes with the connection; a new one is taken at once."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 1, "LEASE_DURATION": 4}
    job = enqueue(tasks.hold, path)
    with (
        running_worker(slots=1, name="cut off"),
        running_worker(queues=("none",)),
        statements_of_workers() as executed,
    ):
        wait_for(lambda: tasks.lines(path), "the job runs")
        for _ in range(2):
            (backend,) = wait_for(lambda: backends("heartbeat:cut off"))
            execute("SELECT pg_terminate_backend(%s, 5000)", [backend[0]])
        looks = executed.count("loop chores")
        wait_for(lambda: executed.count("loop chores") > looks + 3)
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
    assert (job.attempts, job.crashes) == (1, 0)


def test_worker_whose_heartbeat_stays_cut_off_lives_by_its_other_sessions(
    path, settings, colleague
):
    """The lease has the last word."""
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.3, "LEASE_DURATION": 60}
    job = enqueue(tasks.hold, path)
    with running_worker(slots=1, name="cut off") as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        loop.heartbeat.stop()
        wait_for(lambda: not backends("heartbeat:cut off"))
        before = timezone.now() - timedelta(seconds=10)
        Worker.objects.filter(pk=loop.id).update(heartbeat_at=before)
        wait_until_connected_for(1)
        assert rescued_by(colleague(silent=0)) == []
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")


@pytest.mark.direct
def test_lost_connection_of_the_heartbeat_is_replaced_at_once(calm_worker, monkeypatch):
    """Otherwise other workers would take the pause for a death."""
    beating, waits, outcomes = calm_worker.heartbeat, [], [True, False]

    def rest(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) == 3

    def beat() -> None:
        if outcomes.pop():
            return
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as patched:
        patched.setattr(beating, "rest", rest)
        patched.setattr(beating, "beat", beat)
        beating.run()
    assert waits == [600, 0, 600]


def backends(name: str) -> list[tuple[int]]:
    return execute(
        "SELECT pid FROM pg_stat_activity"
        " WHERE application_name = %s AND datname = current_database()",
        [f"pgjobs:{name}"],
    )


# The rescue itself, without processes


class Colleague:
    """A worker as its row and its session lock show it to others.

    `silent` and `beating`: for how many of its heartbeats. Its lease is six of them.
    """

    def __init__(
        self, *, silent: float, beating: float = 1_000, takes_locks: bool = True
    ):
        now, beat = timezone.now(), timedelta(seconds=0.5)
        self.row = Worker.objects.create(
            name="colleague",
            host="elsewhere",
            pid=1,
            slots=1,
            started_at=now,
            heartbeat_at=now - silent * beat,
            beating_since=now - beating * beat,
            lease_until=now + (6 - silent) * beat,
            heartbeat_interval=beat.total_seconds(),
            holds_session_lock=takes_locks,
        )
        self.connection = None

    def lock(self):
        self.connection = connect("default", "heartbeat", "colleague")
        self.connection.execute(
            "SELECT pg_advisory_lock(%s, %s)", [LOCK_CLASS, self.row.pk]
        )

    def run(self, job):
        assert Job.objects.claim(self.row) == [job]


@pytest.fixture
def colleague():
    made = []

    def make(**how):
        made.append(Colleague(**how))
        return made[-1]

    yield make
    for each in made:
        if each.connection is not None:
            each.connection.close()


def rescued_by(rescuer) -> list[int]:
    """Rescue, with all colleagues silent for exactly as long as they were made."""
    execute(
        """
        UPDATE pgjobs_worker
        SET started_at = clock_timestamp(),
            heartbeat_at = clock_timestamp() - (started_at - heartbeat_at),
            beating_since = clock_timestamp() - (started_at - beating_since),
            lease_until = clock_timestamp() - (started_at - lease_until)
        WHERE name = 'colleague'
        """
    )
    return [job.id for job in upkeep.rescue(execute, rescuer.row.pk)]


@pytest.fixture
def connected_for_a_while():
    """The rescuer's connection is older than two of its colleagues' heartbeats."""
    wait_until_connected_for(1)


def wait_until_connected_for(seconds: float):
    age = "SELECT clock_timestamp() - backend_start FROM pg_stat_activity WHERE pid = "
    enough = timedelta(seconds=seconds)
    wait_for(lambda: execute(f"{age} pg_backend_pid()")[0][0] > enough)


@pytest.mark.direct
@pytest.mark.usefixtures("connected_for_a_while")
def test_death_shows_in_the_lock_within_seconds_and_else_in_the_lease(colleague):
    # Silent for so many heartbeats, with its lock or not: dead or not.
    cases = {
        (0.0, True): False,
        (0.0, False): False,
        (0.5, False): False,
        (1.5, False): True,
        (1.5, True): False,
        (5.0, True): False,
        (6.5, True): True,
    }
    rescuer = colleague(silent=0)
    jobs = {case: enqueue(tasks.noop) for case in cases}
    for (silent, is_locked), job in jobs.items():
        lost = colleague(silent=silent)
        lost.run(job)
        if is_locked:
            lost.lock()
    rescued = rescued_by(rescuer)
    assert {case: job.pk in rescued for case, job in jobs.items()} == cases


@pytest.mark.usefixtures("connected_for_a_while")
def test_worker_that_can_take_no_lock_is_dead_only_when_its_lease_is_over(colleague):
    """This is how it is behind a pooler."""
    jobs = [enqueue(tasks.noop) for _ in range(2)]
    for job, silent in zip(jobs, (5.0, 6.5), strict=True):
        colleague(silent=silent, takes_locks=False).run(job)
    assert rescued_by(colleague(silent=0)) == [jobs[1].pk]


@pytest.mark.usefixtures("connected_for_a_while")
def test_rescuer_judges_only_a_time_in_which_it_was_alive_itself(colleague):
    """After an outage all workers seem to have been silent."""
    for silent in (1.5, 6.5):
        colleague(silent=silent).run(enqueue(tasks.noop))
    assert rescued_by(colleague(silent=0, beating=0.5)) == []
    assert len(rescued_by(colleague(silent=0))) == 2


@pytest.mark.direct
def test_missing_lock_counts_only_while_the_rescuer_was_connected(colleague):
    """The fault that broke its connection may have broken those of others, too."""
    job = enqueue(tasks.noop)
    lost, rescuer = colleague(silent=1.5), colleague(silent=0)
    lost.run(job)
    connection.close()
    assert rescued_by(rescuer) == []


SET_CLOCK_BACK = """
UPDATE pgjobs_worker
SET heartbeat_at = heartbeat_at + interval '3 hours',
    beating_since = beating_since + interval '3 hours',
    lease_until = lease_until + interval '3 hours'
"""


def test_worker_that_died_before_the_clock_was_set_back_is_found_dead():
    dead, rescuer = Hand("dead"), Hand("rescuer")
    job = enqueue(tasks.noop)
    assert dead.claim()
    execute(SET_CLOCK_BACK)
    rescuer.beat()
    in_a_minute = timezone.now() + timedelta(minutes=1)
    assert Worker.objects.get(pk=rescuer.id).beating_since < in_a_minute
    assert survey(rescuer.id).answers["rescue"] == 0
    assert rescuer.rescue() == [], "it may live, and beat soon"
    back = timezone.now() - timedelta(seconds=31)
    Worker.objects.filter(pk=rescuer.id).update(beating_since=back)
    assert [each.id for each in rescuer.rescue()] == [job.pk]


def test_living_worker_is_left_alone_after_the_clock_was_set_back():
    living, rescuer = Hand("living"), Hand("rescuer")
    enqueue(tasks.noop)
    assert living.claim()
    execute(SET_CLOCK_BACK)
    rescuer.beat()
    living.beat()
    back = timezone.now() - timedelta(seconds=31)
    Worker.objects.filter(pk=rescuer.id).update(beating_since=back)
    assert rescuer.rescue() == []


def test_worker_starts_while_another_session_holds_the_table(settings, monkeypatch):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.2, "LEASE_DURATION": 30}
    monkeypatch.setattr(heartbeat, "LEAST_PATIENCE", 0.4)
    with session() as other:
        other.begin()
        other.execute("LOCK TABLE pgjobs_job IN ACCESS EXCLUSIVE MODE")
        worker = WorkerThread(poll=600)
        wait_for(lambda: worker.loop.phase == "running", "it has started")
        other.rollback()
    with worker:
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL")


def test_jobs_without_a_worker_row_are_rescued_at_once(colleague):
    job = enqueue(tasks.noop)
    lost, rescuer = colleague(silent=0), colleague(silent=0)
    lost.run(job)
    lost.row.delete()
    assert rescued_by(rescuer) == [job.pk]


def test_rescuer_leaves_its_own_jobs_alone(colleague):
    job = enqueue(tasks.noop)
    rescuer = colleague(silent=100)
    rescuer.run(job)
    assert rescued_by(rescuer) == []


def test_rescue_gives_the_job_a_new_token(colleague):
    """If the worker lives after all, it must not take the job for its own."""
    job = enqueue(tasks.noop)
    lost, rescuer = colleague(silent=6.5), colleague(silent=0)
    lost.run(job)
    job.refresh_from_db()
    token = job.lease_token
    rescued_by(rescuer)
    job.refresh_from_db()
    assert job.lease_token > token


def test_job_is_rescued_whose_token_no_sequence_gives(colleague):
    """Rows that were loaded or written by hand may have any."""
    job = enqueue(tasks.noop)
    lost, rescuer = colleague(silent=6.5), colleague(silent=0)
    lost.run(job)
    Job.objects.update(lease_token=2**63 - 1)
    assert rescued_by(rescuer) == [job.pk]
    job.refresh_from_db()
    assert (job.status, job.crashes) == ("READY", 1)


def test_job_that_another_rescuer_has_locked_is_skipped(colleague):
    jobs = [enqueue(tasks.noop) for _ in range(2)]
    lost, rescuer = colleague(silent=6.5), colleague(silent=0)
    Job.objects.claim(lost.row, 2)
    with connect("default", "loop", "other") as other, other.transaction():
        other.execute("SELECT FROM pgjobs_job WHERE id = %s FOR UPDATE", [jobs[0].pk])
        assert rescued_by(rescuer) == [jobs[1].pk]
        assert Worker.objects.filter(pk=lost.row.pk).exists()
    assert rescued_by(rescuer) == [jobs[0].pk]
    rescued_by(rescuer)
    assert not Worker.objects.filter(pk=lost.row.pk).exists()


def test_rescue_ends_with_a_batch(colleague, monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    for _ in range(5):
        enqueue(tasks.noop)
    lost, rescuer = colleague(silent=6.5), colleague(silent=0)
    Job.objects.claim(lost.row, 5)
    assert [len(rescued_by(rescuer)) for _ in range(4)] == [2, 2, 1, 0]


# What a job knows


@task
def tell() -> list:
    job = current_job()
    return [job.id, job.attempt, job.max_attempts, job.key, job.queue_name]


def test_key_is_the_same_in_all_attempts_of_a_life_and_new_in_the_next(colleague):
    job = enqueue(tell)
    lost, rescuer = colleague(silent=6.5), colleague(silent=0)
    lost.run(job)
    rescued_by(rescuer)
    drain()
    job.refresh_from_db()
    assert job.return_value == [job.pk, 2, 3, f"{job.pk}:1", "default"]
    job.retry()
    drain()
    job.refresh_from_db()
    assert job.return_value == [job.pk, 1, 3, f"{job.pk}:2", "default"]
    assert json.dumps(job.return_value)
