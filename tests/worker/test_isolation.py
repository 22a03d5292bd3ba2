"""One fault never stops everything: plain jobs run on, and the log names the fault."""

from collections import Counter
from contextlib import ExitStack, contextmanager
from math import isinf
from time import monotonic

import psycopg
import pytest
from django.utils import timezone

from pgjobs import current_job, enqueue, enqueue_many, task
from pgjobs.models import Attempt, Job, Queue
from pgjobs.reports.status import overview
from pgjobs.worker import wakefulness
from pgjobs.worker.connections.connection import OwnConnection
from pgjobs.worker.connections.listener import Listener
from pgjobs.worker.upkeep.admission import Admitting
from pgjobs.worker.upkeep.chore import LONGEST_PAUSE
from tests import dependent_tasks as dependent
from tests import tasks
from tests.actors import Hand, execute, hours, job_that_is, session
from tests.processes import (
    ROOT,
    STATEMENTS,
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.worker.test_maintenance import (
    leave_a_schedule_due,
    leave_an_event_for_a_late_handler,
    leave_jobs_of_the_dead,
)

pytestmark = shared_queue

SOON = 10.0  # seconds, as promised

SMALL = {"slots": 4, "poll": 0.5, "grace": 1}
MOST_TRIES = 25  # of one statement, in as many seconds as a test takes at most
# A worker needs these to begin; and those run on the connection of a job, whose failure
# they are.
TO_BEGIN = {"register_worker", "heartbeat"}
OF_ONE_JOB = {"steps", "mark_step", "still_owned", "complete"}
# Plain jobs cannot run without it.
CLAIM = {"record_and_claim"}
# Their connection is opened again after an error, so they have a test of their own.
OF_LISTENING = {
    "commits_wait",
    "need_no_notifications",
    "silent_ones_ended",
    "want_notifications",
}
FOLDERS = ("pgjobs/sql/worker", "pgjobs/sql/upkeep")
NAMES = {path.stem for folder in FOLDERS for path in (ROOT / folder).glob("*.sql")}
# What the scenario below makes a worker run by all means.
CERTAIN = {
    "admit",
    "chores",
    "deliver_late",
    "expire",
    "fire",
    "next_fire",
    "promote",
    "prune",
    "prune_batches",
    "prune_events",
    "prune_left_rows",
    "record",
    "report",
    "rescue",
    "undecided",
}


@task
def report_twice(path: str):
    current_job().progress(1, 2, "half")
    tasks.hold.function(path)


@task(backoff=lambda failures: 3_600)
def fail_twice_at_most(message: str):
    raise ValueError(message)


@contextmanager
def broken(name: str):
    """Let one statement fail in all workers of this process; count how often."""
    failures: Counter[str] = Counter()
    execute, together = OwnConnection.execute, OwnConnection.together
    execute_of_driver = psycopg.Connection.execute

    def refuse(query):
        if STATEMENTS.get(query) == name:
            failures[name] += 1
            raise psycopg.errors.UndefinedColumn(f"{name} is broken")

    def failing(self, query, parameters=None):
        refuse(query)
        return execute(self, query, parameters)

    def failing_together(self, statements):
        for query, _ in statements:
            refuse(query)
        return together(self, statements)

    def failing_of_driver(self, query, *args, **kwargs):
        if isinstance(query, str):  # the listener has a plain connection
            refuse(query)
        return execute_of_driver(self, query, *args, **kwargs)

    OwnConnection.execute, OwnConnection.together = failing, failing_together
    psycopg.Connection.execute = failing_of_driver
    try:
        yield failures
    finally:
        OwnConnection.execute, OwnConnection.together = execute, together
        psycopg.Connection.execute = execute_of_driver


def leave_something_for_each_statement(path: str) -> None:
    leave_jobs_of_the_dead()
    leave_an_event_for_a_late_handler()
    leave_a_schedule_due()
    job_that_is("READY", expires_at=timezone.now() - hours(1))
    job_that_is("SUCCESSFUL", finished_at=timezone.now() - hours(99_999))
    enqueue(tasks.noop.using(run_after=hours(0)))
    enqueue(tasks.fail_with, "no")
    enqueue(tasks.noop.using(lock="door"))
    dependent.use.enqueue(path)
    enqueue(report_twice, path)


@pytest.mark.slow
@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
@pytest.mark.parametrize(
    "name", sorted(NAMES - TO_BEGIN - OF_ONE_JOB - OF_LISTENING - CLAIM)
)
def test_plain_jobs_run_while_a_statement_of_the_worker_fails_for_ever(
    name, settings, tmp_path, caplog
):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.5, "LEASE_DURATION": 5}
    path = str(tmp_path / "held")
    leave_something_for_each_statement(path)
    with broken(name) as failures, running_worker(**SMALL) as loop:
        for chore in loop.upkeep.chores:
            if not isinf(chore.interval):
                chore.due = 0.0
        loop.bell.ring()
        if name in CERTAIN:
            wait_for(lambda: failures[name], f"{name} is run", SOON)
        running = enqueue(report_twice, path)
        for _ in range(3):
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
        running.refresh_from_db()
        running.cancel()
        tasks.let_go(path)
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
        assert loop.phase == "running"
        assert loop.faults.since is None
    assert failures[name] <= MOST_TRIES, "it spins"
    if failures[name]:
        assert f"{name} is broken" in caplog.text


def test_every_statement_of_the_worker_is_broken_by_the_test_above():
    assert NAMES >= CERTAIN | TO_BEGIN | OF_ONE_JOB | OF_LISTENING | CLAIM
    assert set(STATEMENTS.values()) >= NAMES


@pytest.fixture
def restless(monkeypatch):
    """Let workers ask all the time, and hear that commits wait for one another."""
    monkeypatch.setattr(wakefulness, "MANY", 0)
    monkeypatch.setattr(wakefulness, "ASK_SECONDS", 0)
    monkeypatch.setattr(wakefulness, "PATIENCE", 0)
    ask = Listener.ask

    def answered(self, name, **parameters):
        answer = ask(self, name, **parameters)
        return True if name == "commits_wait" else answer

    monkeypatch.setattr(Listener, "ask", answered)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("name", sorted(OF_LISTENING))
def test_worker_neither_spins_nor_stops_while_it_cannot_ask_to_be_notified(
    name, caplog
):
    with running_worker(poll=0.2) as loop:
        with broken(name) as failures:
            wait_for(lambda: failures[name] >= 4, f"{name} is run some times")
            assert max(loop.listener.failures, loop.listener.refused.pause) > 1
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
            assert loop.phase == "running"
            assert loop.faults.since is None
        assert failures[name] <= MOST_TRIES, "it spins"
        assert f"{name} is broken" in caplog.text
        wait_for(lambda: loop.listener.connection, "it listens again")


def test_worker_that_cannot_claim_ahead_claims_for_its_slots(caplog):
    name = "record_and_claim_ahead"
    with running_worker(slots=2, prefetch="auto", poll=600) as loop:
        prefetching = loop.claimer.prefetching

        def are_known():
            wait_until_all(neighbours(), "SUCCESSFUL")
            return prefetching.averages.costs()

        wait_for(are_known, "its jobs are known to be short")
        with broken(name) as failures:
            wait_until_all(neighbours(), "SUCCESSFUL")
            wait_for(lambda: neighbours() and failures[name] >= 2, "it is tried again")
            wait_for_all("SUCCESSFUL", timeout=SOON)
            assert loop.phase == "running"
            assert loop.claimer.backoff.since is None
        assert failures[name] <= MOST_TRIES, "it spins"
        assert "Claiming ahead failed, trying again in" in caplog.text
        wait_for(
            lambda: neighbours() and prefetching.backoff.since is None,
            "it claims ahead again",
        )


def fill_with_jobs_of_a_limited_queue() -> None:
    Queue.objects.create(name="narrow", max_running=1)
    enqueue(tasks.noop.using(queue_name="narrow", priority=100))


def fill_with_jobs_of_a_paused_queue() -> None:
    Queue.objects.create(name="paused", paused_at=timezone.now())
    enqueue_many([tasks.noop.using(queue_name="paused", priority=100).bind()] * 200)


@pytest.mark.parametrize(
    "fill", [fill_with_jobs_of_a_limited_queue, fill_with_jobs_of_a_paused_queue]
)
def test_worker_that_cannot_claim_by_queue_gets_past_what_it_may_not_claim(
    fill, caplog
):
    fill()
    with broken("claim_by_queue") as failures, running_worker(slots=2) as loop:
        for _ in range(5):
            wait_until_all(neighbours(), "SUCCESSFUL")
        wait_for(lambda: failures["claim_by_queue"] >= 2, "it is tried again")
        assert loop.claimer.backoff.since is None
        assert failures["claim_by_queue"] <= MOST_TRIES, "it spins"
    assert "Claiming by queue failed, only plain jobs run for" in caplog.text


def test_worker_that_cannot_count_units_runs_plain_jobs_one_unit_each(tmp_path):
    path = str(tmp_path / "held")
    running = Job.objects.filter(status="RUNNING")
    options = {"slots": 3, "units": 3, "grace": 1}
    with ExitStack() as fault:
        failures = fault.enter_context(broken("claim_by_queue"))
        heavy = enqueue(tasks.noop.using(process_units=2, priority=100))
        held = enqueue_many([tasks.hold.bind(path) for _ in range(6)])
        with running_worker(**options) as first, running_worker(**options) as second:
            wait_for(lambda: len(tasks.lines(path)) >= 3, "plain jobs fill the host")
            tries = failures["claim_by_queue"]
            wait_for(
                lambda: failures["claim_by_queue"] >= tries + 3, "it is tried again"
            )
            assert running.count() == len(tasks.lines(path)) == 3
            tasks.let_go(path)
            wait_until_all(held, "SUCCESSFUL")
            heavy.refresh_from_db()
            assert heavy.status == "READY"
            assert first.faults.since is second.faults.since is None
            assert failures["claim_by_queue"] <= 2 * MOST_TRIES, "it spins"
            fault.close()
            wait_for_status(heavy, "SUCCESSFUL", timeout=2 * LONGEST_PAUSE)


def test_drain_whose_claim_by_queue_fails_for_long_says_so(monkeypatch):
    monkeypatch.setattr("pgjobs.worker.claimer.DRAIN_PATIENCE", 1.0)
    enqueue(tasks.noop.using(process_units=1))
    plain = neighbours()
    with broken("claim_by_queue"), running_worker(drain=True, units=3) as loop:
        wait_until_all(plain, "SUCCESSFUL")
        wait_for(lambda: loop.phase == "stopped", "it gives up")
    assert Job.objects.filter(status="READY").count() == 1


def test_worker_whose_claim_fails_for_ever_neither_spins_nor_ends(caplog):
    enqueue(tasks.noop)
    with broken("record_and_claim") as failures, running_worker(poll=600) as loop:
        wait_for(lambda: loop.claimer.backoff.pause > 1, "it has tried some times")
        assert loop.phase == "running"
    assert failures["record_and_claim"] <= MOST_TRIES
    assert "Claiming failed, trying again in" in caplog.text
    assert "record_and_claim is broken" in caplog.text


def test_outcomes_are_recorded_and_chores_done_while_the_claim_fails(tmp_path):
    path = str(tmp_path / "held")
    job = enqueue(tasks.hold, path)
    with running_worker(poll=600) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        with broken("record_and_claim"):
            enqueue(tasks.noop)
            wait_for(lambda: loop.claimer.backoff.since is not None, "it fails")
            late = job_that_is("SCHEDULED", expires_at=timezone.now() - hours(1))
            tasks.let_go(path)
            loop.upkeep.expiry.due = 0.0
            loop.bell.ring()
            wait_for_status(job, "SUCCESSFUL", timeout=SOON)
            wait_for_status(late, "CANCELLED", timeout=SOON)


# Rows that no statement can change


@pytest.fixture
def refuse():
    """Let the database refuse changes of jobs of `tests.echo`, given a condition."""

    def refuse(condition: str, event: str = "UPDATE") -> None:
        result = "OLD" if event == "DELETE" else "NEW"
        execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            f" IF OLD.task = 'tests.echo' AND {condition}"
            f" THEN RAISE 'refused'; END IF; RETURN {result}; END $$"
        )
        execute(
            f"CREATE TRIGGER aaa_refuse BEFORE {event} ON pgjobs_job"
            " FOR EACH ROW EXECUTE FUNCTION refuse()"
        )

    yield refuse
    execute("DROP FUNCTION IF EXISTS refuse() CASCADE")


def neighbours(**options) -> list[Job]:
    return enqueue_many([tasks.noop.using(**options).bind() for _ in range(5)])


def wait_until_all(jobs: list[Job], status: str) -> None:
    for job in jobs:
        wait_for_status(job, status, timeout=SOON)


def test_job_that_cannot_be_claimed_fails_and_the_others_run(refuse, caplog):
    refuse("NEW.status = 'RUNNING'")
    bad = enqueue(tasks.echo.using(priority=100), 1)
    others = neighbours()
    with running_worker(poll=600):
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert bad.reason == "A worker cannot go on with the job (claim): " + REFUSED
    assert f"Job id={bad.pk} FAILED" in caplog.text


REFUSED = "refused\nCONTEXT:  PL/pgSQL function refuse() line 1 at RAISE"


def test_job_that_cannot_be_promoted_fails_and_the_others_run(refuse):
    refuse("NEW.status = 'READY'")
    soon = {"run_after": hours(0.0001)}
    bad = enqueue(tasks.echo.using(**soon), 1)
    others = neighbours(**soon)
    with running_worker(poll=0.2):
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert "(promote): refused" in bad.reason


def test_job_that_cannot_expire_fails_and_the_others_expire(refuse):
    refuse("NEW.status = 'CANCELLED'")
    jobs = [
        *neighbours(run_after=hours(1)),
        enqueue(tasks.echo.using(run_after=hours(1)), 1),
    ]
    Job.objects.update(expires_at=timezone.now() - hours(1))
    with running_worker(poll=600) as loop:
        loop.upkeep.expiry.due = 0.0
        loop.bell.ring()
        wait_until_all(jobs[:-1], "CANCELLED")
        wait_for_status(jobs[-1], "FAILED", timeout=SOON)


def test_jobs_that_chores_skip_are_problems_that_jobstatus_reports(refuse, caplog):
    long_ago = timezone.now() - hours(1)
    due = enqueue(tasks.echo.using(run_after=hours(1)), 1)
    Job.objects.filter(pk=due.pk).update(run_after=long_ago)
    late = enqueue(tasks.echo.using(run_after=hours(1)), 2)
    Job.objects.filter(pk=late.pk).update(expires_at=long_ago)
    refuse("true")
    with running_worker(poll=600) as loop:
        loop.upkeep.expiry.due = 0.0
        loop.bell.ring()
        for id, chore in ((due.pk, "promote"), (late.pk, "expire")):
            told = f"Job id={id} is skipped: chore={chore}"
            wait_for(lambda told=told: told in caplog.text, told, SOON)
    assert overview("default").problems == [
        "1 scheduled job is overdue: does a worker run?",
        "1 expired job is not cancelled: does a worker run?",
    ]


def test_job_that_cannot_be_rescued_fails_and_the_others_are_rescued(refuse):
    dead = Hand("dead")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    assert len(dead.claim(6)) == 6
    dead.vanish()
    refuse("NEW.status = 'READY'")
    with running_worker(poll=600) as loop:
        loop.upkeep.rescue.expect()
        loop.bell.ring()
        wait_until_all(others, "SUCCESSFUL")
        wait_for_status(bad, "FAILED", timeout=SOON)
    assert "(rescue): refused" in bad.reason
    assert Attempt.objects.filter(job=bad).exists()


def test_job_whose_success_cannot_be_stored_fails(refuse):
    refuse("NEW.status = 'SUCCESSFUL'")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    drain(slots=6)
    wait_until_all(others, "SUCCESSFUL")
    bad.refresh_from_db()
    assert bad.status == "FAILED"
    assert bad.reason.startswith("Its outcome cannot be stored: refused")


def test_error_whose_characters_cannot_be_stored_is_retried_all_the_same(refuse):
    """A database of another encoding than UTF-8 lacks some of them."""
    refuse("false OR octet_length(NEW.reason) > length(NEW.reason)")
    bad = enqueue(fail_twice_at_most, "naïve 50 % 😀")
    drain()
    bad.refresh_from_db()
    assert (bad.status, bad.failures) == ("SCHEDULED", 1)
    assert bad.reason.startswith(r"ValueError: na\xefve")


def test_outcome_that_cannot_be_stored_at_all_leaves_the_other_slots_alone(
    refuse, caplog
):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    bad = enqueue(tasks.echo, 1)
    with running_worker(slots=2, poll=600) as loop:
        wait_for(lambda: loop.in_flight.failing, "its outcome is kept for later")
        wait_until_all(neighbours(), "SUCCESSFUL")
        execute("DROP FUNCTION refuse() CASCADE")
        wait_for_status(bad, "SUCCESSFUL", timeout=SOON)
    assert "Recording failed, the next try in" in caplog.text
    assert f"jobs={bad.pk}: refused" in caplog.text


def test_outcome_that_waits_for_a_lock_on_another_table_takes_no_slot():
    with session() as other, running_worker(slots=2, poll=600) as loop:
        other.begin()
        other.execute("LOCK TABLE pgjobs_errorgroup IN EXCLUSIVE MODE")
        failing = enqueue_many([fail_twice_at_most.bind(str(n)) for n in range(3)])
        wait_for(lambda: len(loop.in_flight.failing) >= 2, "they are kept for later")
        wait_until_all(neighbours(), "SUCCESSFUL")
        other.commit()
        wait_until_all(failing, "SCHEDULED")


def test_sweep_that_meets_a_lock_is_not_tried_again_at_once():
    admitting, now = Admitting(), monotonic()
    admitting.sweeping.due = 0.0
    assert admitting.is_due(now)
    for _ in range(3):
        admitting.deferred(now)
        assert not admitting.is_due(now)
        assert admitting.is_due(admitting.due)


def test_drain_ends_although_an_outcome_cannot_be_stored(refuse):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    bad = enqueue(tasks.echo, 1)
    others = neighbours()
    drain()
    wait_until_all(others, "SUCCESSFUL")
    bad.refresh_from_db()
    assert bad.status == "RUNNING"


def test_job_that_cannot_be_deleted_is_skipped_and_the_others_are_pruned(
    refuse, caplog
):
    jobs = [*neighbours(), enqueue(tasks.echo, 1)]
    Job.objects.succeed()
    Job.objects.update(finished_at=timezone.now() - hours(99_999))
    refuse("true", "DELETE")
    with running_worker(poll=600) as loop:
        for _ in range(2):
            loop.upkeep["prune"].due = 0.0
            loop.bell.ring()
            wait_for(lambda: Job.objects.count() == 1, "they are deleted", SOON)
            wait_for(lambda: loop.upkeep["prune"].due > 0, "it has pruned")
    assert Job.objects.get() == jobs[-1]
    assert caplog.text.count(f"Job id={jobs[-1].pk} is skipped: chore=prune") == 1
    assert "Chore name=prune failed" not in caplog.text


def test_statement_that_takes_too_long_is_tried_with_half_of_its_batch(monkeypatch):
    with running_worker(poll=600) as loop:
        expiry, limits = loop.upkeep.expiry, []

        def expire(execute, batch):
            limits.append(batch.size)
            raise psycopg.errors.QueryCanceled("canceling statement due to timeout")

        monkeypatch.setattr("pgjobs.queue.upkeep.expire", expire)

        def has_tried_three_times() -> bool:
            expiry.due = expiry.backoff.retry_at = 0.0
            loop.bell.ring()
            return len(limits) >= 3

        wait_for(has_tried_three_times)
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
    assert limits[:3] == [1000, 500, 250]


# Statements that a worker needs only after another fault


@pytest.mark.parametrize(
    "names",
    [
        ["record", "record_without_group"],
        ["record", "record_without_group", "record_without_attempt"],
    ],
)
def test_failures_that_cannot_be_stored_in_any_way_leave_plain_jobs_alone(
    names, caplog
):
    with ExitStack() as faults, running_worker(slots=2, poll=600) as loop:
        failures = [faults.enter_context(broken(name)) for name in names]
        failing = [enqueue(fail_twice_at_most, str(number)) for number in range(3)]
        wait_for(lambda: all(map(Counter.total, failures)), "each is tried")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert max(map(Counter.total, failures)) <= MOST_TRIES
        assert f"{names[-1]} is broken" in caplog.text
        faults.close()
        wait_until_all(failing, "SCHEDULED")


def test_success_that_cannot_be_stored_in_any_way_leaves_plain_jobs_alone(
    refuse, caplog
):
    refuse("NEW.status <> 'RUNNING' AND OLD.status = 'RUNNING'")
    with broken("record_successes") as failures, running_worker(poll=600) as loop:
        enqueue(tasks.echo, 1)
        wait_for(lambda: failures["record_successes"], "it is tried")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert failures["record_successes"] <= MOST_TRIES
    assert "record_successes is broken" in caplog.text


def test_worker_that_cannot_ask_what_became_of_a_job_runs_the_others(tmp_path, caplog):
    path = str(tmp_path / "held")
    job = enqueue(tasks.hold, path)
    with broken("in_doubt") as failures, running_worker(slots=1, poll=600) as loop:
        wait_for(lambda: tasks.lines(path), "the job runs")
        Job.objects.filter(pk=job.pk).delete()
        tasks.let_go(path)
        wait_for(lambda: failures["in_doubt"], "the worker asks")
        wait_until_all(neighbours(), "SUCCESSFUL")
        assert loop.faults.since is None
        assert failures["in_doubt"] <= MOST_TRIES
    assert "in_doubt is broken" in caplog.text


@pytest.mark.parametrize("name", ["first_in_line", "try_claim"])
def test_worker_that_cannot_find_what_makes_claims_fail_goes_on_once_it_can(
    name, refuse, caplog
):
    """Until then it cannot claim: any job may be the one."""
    refuse("NEW.status = 'RUNNING'")
    with running_worker(poll=600) as loop:
        with broken(name) as failures:
            bad = enqueue(tasks.echo, 1)
            wait_for(lambda: failures[name] >= 3, "it is tried")
            assert loop.phase == "running"
            assert loop.faults.since is None
        assert failures[name] <= MOST_TRIES, "it spins"
        wait_for_status(bad, "FAILED", timeout=SOON)
        wait_until_all(neighbours(), "SUCCESSFUL")
    assert f"{name} is broken" in caplog.text
