"""Atomic tasks: body, enqueued jobs and completion commit together, or not at all."""

import asyncio
import os
import socket
import struct
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection, connections, transaction
from django.db.backends.signals import connection_created

from pgjobs import Cancel, Fail, Retry, Snooze, current_job, enqueue, signals, task
from pgjobs.exceptions import InvalidTask, JobCancelled, LeaseLost, TaskTimeout
from pgjobs.models import Attempt, Job, Progress
from pgjobs.queue.recording import Completed
from pgjobs.tasks.options import Options
from pgjobs.worker import ExitCode
from pgjobs.worker.slots import atomic
from tests import tasks
from tests.actors import (
    WAITING_SESSIONS,
    Hand,
    execute,
    fields_of,
    in_thread,
    overlapping,
    session,
)
from tests.declaring.test_tasks import declared, module
from tests.processes import (
    WorkerThread,
    drain,
    run,
    running_worker,
    shared_queue,
    statements_of_workers,
    wait_for,
    wait_for_pass,
    wait_for_status,
)

pytestmark = shared_queue


@pytest.fixture(autouse=True)
def effects():
    """A table that tasks leave effects in; equal lines are refused at COMMIT."""
    with session() as outside:
        outside.execute(
            "CREATE TABLE effect"
            " (line text UNIQUE DEFERRABLE INITIALLY DEFERRED, CHECK (line <> 'bad'))"
        )
        yield lambda: [line for (line,) in outside.execute("SELECT line FROM effect")]
        outside.execute("DROP TABLE effect")
        outside.execute("DROP FUNCTION IF EXISTS wait_at_commit")


def leave(line: str) -> None:
    execute("INSERT INTO effect VALUES (%(line)s)", {"line": line})


WAIT_AT_COMMIT = """
CREATE FUNCTION wait_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER wait_at_commit AFTER INSERT ON effect
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait_at_commit()
"""


@contextmanager
def lasting_commits():
    """Let COMMITs of effects last until the block ends, as if a replica were slow.

    Yields a function that returns how many sessions wait for a lock.
    """
    with session() as outside:
        outside.execute(WAIT_AT_COMMIT)
        outside.execute("SELECT pg_advisory_lock(4711)")
        yield lambda: execute(WAITING_SESSIONS)[0][0]
        outside.execute("SELECT pg_advisory_unlock(4711)")


def attempts() -> list[tuple[str, str]]:
    return list(Attempt.objects.order_by("pk").values_list("outcome", "message"))


# All or nothing


@task(atomic=True)
def leave_and_enqueue(line: str = "done") -> str:
    leave(line)
    tasks.noop.using(run_after=timedelta(hours=1)).enqueue()
    return line


def test_body_enqueued_jobs_and_completion_are_one_transaction(effects):
    job = run(leave_and_enqueue)
    assert (job.status, job.return_value, job.reason) == ("SUCCESSFUL", "done", "")
    assert (job.attempts, job.failures, job.worker_id) == (1, 0, None)
    assert job.finished_at > job.last_attempted_at
    assert effects() == ["done"]
    assert execute("SELECT count(DISTINCT xmin::text) FROM pgjobs_job") == [(1,)]
    together = "SELECT (SELECT xmin FROM effect) = ALL (SELECT xmin FROM pgjobs_job)"
    assert execute(together) == [(True,)]
    assert attempts() == []


@task(atomic=True, max_attempts=1)
def end_by(how: str):
    leave_and_enqueue.function()
    return WAYS_OUT[how]()


def raising(error):
    def body():
        raise error

    return body


WAYS_OUT = {
    "error": raising(ValueError("no")),
    "exit": raising(SystemExit(3)),
    "Fail": raising(Fail("for good")),
    "Retry": raising(Retry(after=0)),
    "Snooze": raising(Snooze(3_600)),
    "Cancel": raising(Cancel("not needed")),
    "odd result": object,
    "large result": lambda: "x" * 2_000_000,
}


@pytest.mark.parametrize(
    ("how", "status", "reason"),
    [
        ("error", "FAILED", "ValueError: no"),
        ("exit", "FAILED", "SystemExit: 3"),
        ("Fail", "FAILED", "for good"),
        ("Retry", "FAILED", "The task asked to be retried."),
        ("Snooze", "SCHEDULED", "The task snoozed for 3600 s."),
        ("Cancel", "CANCELLED", "not needed"),
        ("odd result", "FAILED", "The result cannot be stored: object is not JSON"),
        ("large result", "FAILED", "The result cannot be stored: is 2000002 bytes"),
    ],
)
def test_attempt_without_success_undoes_everything(effects, how, status, reason):
    job = run(end_by, how)
    assert job.status == status
    assert job.reason.startswith(reason)
    assert effects() == []
    assert Job.objects.count() == 1
    assert len(attempts()) == 1


def test_attempt_that_failed_leaves_nothing_for_the_next(effects):
    job = run(work_at_the_second_attempt)
    assert (job.status, job.attempts, job.failures) == ("SUCCESSFUL", 2, 1)
    assert (job.reason, effects()) == ("", ["attempt 2"])


@task(atomic=True)
def work_at_the_second_attempt():
    attempt = current_job().attempt
    leave(f"attempt {attempt}")
    if attempt == 1:
        raise Retry(after=0)


# Errors of the database


@task(atomic=True, max_attempts=1)
def swallow(how: str):
    leave("before")
    try:
        FAULTS[how]()
    except DatabaseError:
        return "swallowed"


def break_in_a_block_without_savepoint():
    with transaction.atomic(savepoint=False):
        leave("bad")


def break_in_a_savepoint():
    with transaction.atomic():
        leave("bad")


FAULTS = {
    "raw": lambda: leave("bad"),
    "without savepoint": break_in_a_block_without_savepoint,
    "model": lambda: Job(id=1, task="x" * 300, priority=1).save(force_insert=True),
    "by hand": lambda: transaction.set_rollback(True),
    "savepoint": break_in_a_savepoint,
}


@pytest.mark.parametrize("how", ["raw", "without savepoint", "model", "by hand"])
def test_swallowed_database_error_is_a_failure_with_a_clear_reason(effects, how):
    job = run(swallow, how)
    assert job.status == "FAILED"
    assert "the task has caught a database error in it" in job.reason
    assert effects() == []
    (attempt,) = Attempt.objects.all()
    assert attempt.exception_class.endswith("TransactionManagementError")


def test_database_error_caught_around_a_savepoint_is_harmless(effects):
    job = run(swallow, "savepoint")
    assert (job.status, job.return_value) == ("SUCCESSFUL", "swallowed")
    assert effects() == ["before"]


@task(atomic=True, max_attempts=2, backoff=lambda failures: 0)
def violate_deferred_constraint(path: str):
    transaction.on_commit(lambda: tasks.write(path, "committed"))
    leave("twice")
    leave("twice")
    tasks.write(path, "to be committed")


def test_constraint_that_is_checked_at_commit_fails_the_attempt(effects, tmp_path):
    path = str(tmp_path / "lines")
    job = run(violate_deferred_constraint, path)
    assert (job.status, job.attempts, job.failures) == ("FAILED", 2, 2)
    assert "duplicate key value" in job.reason
    assert effects() == []
    assert tasks.lines(path) == ["to be committed"] * 2


@task(atomic=True)
def show_isolation() -> str:
    return execute("SHOW transaction_isolation")[0][0]


def test_isolation_level_of_the_project_is_kept(monkeypatch):
    options = {**connections.databases["default"]["OPTIONS"]}
    assert run(show_isolation).return_value == "read committed"
    options["isolation_level"] = psycopg.IsolationLevel.REPEATABLE_READ
    monkeypatch.setitem(connections.databases["default"], "OPTIONS", options)
    assert run(show_isolation).return_value == "repeatable read"


def test_server_may_bind_the_parameters_of_the_project(effects, monkeypatch):
    options = connections.databases["default"]["OPTIONS"]
    monkeypatch.setitem(
        connections.databases["default"],
        "OPTIONS",
        {**options, "server_side_binding": True},
    )
    assert run(leave_and_enqueue).status == "SUCCESSFUL"
    assert effects() == ["done"]


# Transactions that the task ends by itself


def commit_and_go_on():
    execute("COMMIT")
    leave("later")


def commit_by_the_driver():
    connection.connection.commit()
    leave("later")


def replace_connection():
    del connections["default"]
    leave("elsewhere")


ENDINGS = {
    "COMMIT": lambda: execute("COMMIT"),
    "COMMIT and go on": commit_and_go_on,
    "COMMIT AND CHAIN": lambda: execute("COMMIT AND CHAIN"),
    "ROLLBACK": lambda: execute("ROLLBACK"),
    "by the driver": commit_by_the_driver,
    "rollback by the driver": lambda: connection.connection.rollback(),
    "commit": lambda: transaction.commit(),
    "rollback": lambda: transaction.rollback(),
    "autocommit": lambda: transaction.set_autocommit(True),
    "close": lambda: connection.close(),
    "close all": lambda: connections.close_all(),
    "replace": replace_connection,
    "durable": lambda: transaction.atomic(durable=True).__enter__(),
}


@task(atomic=True, max_attempts=1)
def end_transaction(how: str):
    leave(f"before {how}")
    ENDINGS[how]()


COMMITTED = {"COMMIT", "COMMIT and go on", "COMMIT AND CHAIN", "by the driver"}
ENDED_BY_ITSELF = COMMITTED | {"ROLLBACK", "rollback by the driver"}


def test_task_that_ends_its_transaction_fails_and_harms_no_other(effects):
    jobs, following = {}, []
    for how in ENDINGS:
        jobs[how] = end_transaction.enqueue(how)
        following += [tasks.noop.enqueue(), leave_and_enqueue.enqueue(f"after {how}")]
    drain(slots=1)
    for job in [*jobs.values(), *following]:
        job.refresh_from_db()
    assert {how: job.status for how, job in jobs.items()} == dict.fromkeys(
        ENDINGS, "FAILED"
    )
    assert {
        how
        for how, job in jobs.items()
        if "ended its transaction by itself" in job.reason
    } == ENDED_BY_ITSELF
    assert {job.status for job in following} == {"SUCCESSFUL"}
    assert sorted(effects()) == sorted(
        [f"before {how}" for how in COMMITTED]
        + [f"after {how}" for how in ENDINGS]
        + ["elsewhere"]
    )


def test_completion_never_commits_a_transaction_around_it(effects):
    leave_and_enqueue.enqueue()
    claimed = Hand().claim_one()
    with transaction.atomic():
        leave("around")
        assert "durable" in str(run_here(claimed))
        transaction.set_rollback(True)
    assert effects() == []


def test_attempt_that_may_be_half_done_is_not_tried_again():
    job = run(end_transaction.using(max_attempts=5), "COMMIT")
    assert (job.status, job.attempts) == ("FAILED", 1)


# Hooks


@task(atomic=True)
def with_hooks(path: str, error: str = ""):
    leave("done")
    id = current_job().id

    def hook():
        with session() as outside:
            rows = outside.execute("SELECT status FROM pgjobs_job WHERE id = %s", [id])
        tasks.write(path, f"{rows[0][0]}")
        if error:
            raise {"ValueError": ValueError, "SystemExit": SystemExit}[error]("hook")

    transaction.on_commit(hook)
    tasks.write(path, "body")


def test_hooks_run_after_the_success_is_committed(tmp_path):
    path = str(tmp_path / "lines")
    assert run(with_hooks, path).status == "SUCCESSFUL"
    assert tasks.lines(path) == ["body", "SUCCESSFUL"]


@pytest.mark.parametrize("error", ["ValueError", "SystemExit"])
def test_hook_that_raises_is_logged_and_changes_nothing(
    effects, tmp_path, caplog, error
):
    path = str(tmp_path / "lines")
    finished = []

    def receive(sender, job, **named):
        finished.append(job.status)

    signals.job_finished.connect(receive)
    try:
        job = run(with_hooks, path, error)
    finally:
        signals.job_finished.disconnect(receive)
    assert (job.status, job.attempts, attempts()) == ("SUCCESSFUL", 1, [])
    assert effects() == ["done"]
    assert tasks.lines(path) == ["body", "SUCCESSFUL"]
    assert f"Job id={job.pk}" in caplog.text
    assert "a function that it gave to on_commit failed" in caplog.text
    assert finished == ["SUCCESSFUL"]


@task(atomic=True)
def with_a_talkative_hook(password: str):
    def hook():
        raise ValueError(f"no access with {password}")

    transaction.on_commit(hook)


def test_log_of_a_hook_that_raises_masks_what_is_sensitive(caplog):
    assert run(with_a_talkative_hook, "hunter-two").status == "SUCCESSFUL"
    assert "ValueError: no access with" in caplog.text
    assert "hunter-two" not in caplog.text


# Cancelling


@task(atomic=True)
def leave_and_hold(path: str):
    leave("held")
    tasks.hold(path)


def held(path: str) -> Job:
    """Return a job that has done everything but end."""
    job = enqueue(leave_and_hold, path)
    wait_for(lambda: tasks.lines(path), "the body has begun")
    return job


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "lines")


def test_cancel_wins_because_everything_can_be_rolled_back(effects, path):
    with running_worker():
        job = enqueue(leave_and_hold_whatever_comes, path)
        wait_for(lambda: tasks.lines(path), "the body has begun")
        assert job.cancel("Changed my mind.")
        tasks.let_go(path)
        with pytest.raises(JobCancelled, match="Changed my mind"):
            job.wait(60)
    job.refresh_from_db()
    assert (job.status, job.failures) == ("CANCELLED", 0)
    assert effects() == []
    assert [outcome for outcome, _ in attempts()] == ["CANCELLED"]


@task(atomic=True, cancel="cooperative")
def leave_and_hold_whatever_comes(path: str):
    leave("held")
    tasks.hold(path)


def test_cancel_that_interrupts_the_body_undoes_everything(effects, path):
    with running_worker():
        job = held(path)
        assert job.cancel("Changed my mind.")
        wait_for_status(job, "CANCELLED")
    assert (job.reason, effects()) == ("Changed my mind.", [])


@task(atomic=True, timeout=0.05, max_attempts=1)
def overrun(path: str):
    leave("done")
    tasks.hold(path)


def test_time_limit_that_ends_the_body_undoes_everything(effects, path):
    job = run(overrun, path)
    assert (job.status, effects()) == ("FAILED", [])
    assert "took longer" in job.reason


@task(atomic=True, timeout=60, max_attempts=1)
def overrun_for_good(path: str, in_hook: bool):
    leave("late")
    if in_hook:
        transaction.on_commit(lambda: tasks.hold(path))
        return
    try:
        tasks.hold(path)
    except TaskTimeout:
        tasks.wait_for_go(path)


@pytest.mark.parametrize("in_hook", [True, False])
def test_abandoned_attempt_counts_only_if_it_was_committed(
    effects, path, settings, caplog, in_hook
):
    settings.PGJOBS = {"TIMEOUT_GRACE": 0.05}
    with WorkerThread(slots=1) as worker:
        job = enqueue(overrun_for_good, path, in_hook)
        wait_for(lambda: tasks.lines(path), "it holds")
        executor = worker.loop.executor
        executor.time_out(*executor.running.values())
        assert worker.join() == ExitCode.RESTART
    before = fields_of(job)
    tasks.let_go(path)
    wait_for(lambda: "ended long after it was given up" in caplog.text)
    assert fields_of(job) == before
    assert before["status"] == ("SUCCESSFUL" if in_hook else "FAILED")
    assert effects() == (["late"] if in_hook else [])
    assert len(attempts()) == (0 if in_hook else 1)


def test_cancel_that_comes_after_the_completion_changes_nothing_and_says_so():
    job = run(leave_and_enqueue)
    assert not job.cancel()
    assert job.status == "SUCCESSFUL"


def test_completion_waits_for_a_cancel_that_is_about_to_commit(effects):
    hand, job = Hand(), leave_and_enqueue.enqueue()
    claimed = hand.claim_one()
    _, outcome = overlapping(job.cancel, lambda: run_here(claimed))
    assert isinstance(outcome, Cancel)
    assert effects() == []


def run_here(claimed):
    try:
        return atomic.run(claimed, lambda: leave("done"))
    except Exception as error:  # noqa: BLE001  (it is what the test looks at)
        return error


def test_cancel_waits_for_a_completion_that_is_about_to_commit(effects):
    hand, job = Hand(), leave_and_enqueue.enqueue()
    claimed = hand.claim_one()
    with ExitStack() as stack:
        with lasting_commits() as waiting:
            completion = stack.enter_context(in_thread(run_here, claimed))
            wait_for(lambda: waiting() == 1, "it commits")
            cancel = stack.enter_context(in_thread(Job.objects.get(pk=job.pk).cancel))
            wait_for(lambda: waiting() == 2, "cancel waits for it")
        assert isinstance(completion.result(timeout=60), Completed)
        assert not cancel.result(timeout=60)
    job.refresh_from_db()
    assert (job.status, effects()) == ("SUCCESSFUL", ["done"])


@pytest.mark.parametrize("refer", [True, False])
def test_acts_do_not_wait_for_the_transaction_of_a_running_job(path, effects, refer):
    """Not even if the job refers to its own row, and so locks it against deletion."""
    with running_worker():
        job = enqueue(refer_and_hold, path, refer)
        wait_for(lambda: tasks.lines(path), "the body has begun")
        execute("SET lock_timeout = '5s'")
        assert job.cancel()
        assert Hand().rescue() == []
        assert job.fail("By hand.")
        tasks.let_go(path)
    execute("RESET lock_timeout")
    job.refresh_from_db()
    assert (job.status, job.reason, effects()) == ("FAILED", "By hand.", [])


@task(atomic=True, cancel="cooperative")
def refer_and_hold(path: str, refer: bool):
    if refer:
        id = current_job().id
        execute("SELECT FROM pgjobs_job WHERE id = %(id)s FOR KEY SHARE", {"id": id})
    leave("held")
    tasks.hold(path)


# Leases


def rescue(job: Job) -> None:
    mine = Job.objects.get(pk=job.pk).worker_id
    Hand("rescuer")
    execute("DELETE FROM pgjobs_worker WHERE id = %(id)s", {"id": mine})
    wait_for(lambda: Hand("another").rescue(), "it is rescued")


LOSSES = {
    "rescued": rescue,
    "failed by hand": lambda job: job.fail("By hand."),
    "succeeded by hand": lambda job: job.succeed("by hand"),
    "deleted": lambda job: job.delete(),
}


@pytest.mark.parametrize("how", LOSSES)
def test_worker_that_lost_its_lease_undoes_everything(
    settings, effects, path, caplog, how
):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with running_worker(slots=1, max_jobs=1):
        job = held(path)
        LOSSES[how](Job.objects.get(pk=job.pk))
        after = Job.objects.filter(pk=job.pk).values().first()
        tasks.let_go(path)
        wait_for(lambda: "its outcome is void" in caplog.text, "the job ends")
    assert Job.objects.filter(pk=job.pk).values().first() == after
    assert effects() == []


def test_only_one_of_two_runs_of_the_same_job_takes_effect(effects, path, settings):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 600, "LEASE_DURATION": 3_600}
    with WorkerThread(slots=1, max_jobs=1) as first:
        wait_for(lambda: first.loop.phase == "running")
        job = held(path)
        rescue(job)
        with running_worker(slots=1, max_jobs=1):
            wait_for(lambda: len(tasks.lines(path)) == 2, "both run")
            tasks.let_go(path)
            wait_for_status(job, "SUCCESSFUL")
    assert effects() == ["held"]
    assert (job.attempts, job.crashes) == (2, 1)


def claimed_by_another(hand: Hand, stale) -> None:
    hand.vanish()
    assert Hand("rescuer").rescue()
    assert Hand("another").claim_one().id == stale.id


def released(hand: Hand, stale) -> None:
    assert hand.set_back(stale, "RELEASE") == "READY"


@pytest.mark.parametrize("lost_by", [claimed_by_another, released])
def test_old_token_completes_nothing(effects, lost_by):
    hand, job = Hand(), leave_and_enqueue.enqueue()
    stale = hand.claim_one()
    lost_by(hand, stale)
    before = fields_of(job)
    assert isinstance(run_here(stale), LeaseLost)
    assert (fields_of(job), effects()) == (before, [])


@task(atomic=True, max_attempts=1)
def act_on_itself(verb: str):
    leave("before")
    getattr(Job.objects.get(pk=current_job().id), verb)()


@pytest.mark.parametrize("verb", ["fail", "succeed", "cancel", "delete"])
def test_task_that_changes_its_own_row_fails_with_that_reason(effects, verb):
    job = run(act_on_itself, verb)
    assert job.status == "FAILED"
    assert "changed the row of its own job" in job.reason
    assert effects() == []


# COMMIT in doubt


class Doubt:
    """Loses the connection of the first job that commits, as it sends its COMMIT."""

    def __init__(self, monkeypatch):
        self.arrives_at_once = False
        self.server_end: socket.socket | None = None
        doubt = self

        class Cursor(psycopg.ClientCursor):
            def execute(self, query, parameters):
                if doubt.server_end is None:
                    doubt.message = self.mogrify(query, parameters).encode() + b"\0"
                    doubt.cut(self.connection)
                return super().execute(query, parameters)

        monkeypatch.setattr(atomic, "ClientCursor", Cursor)

    def cut(self, own: psycopg.Connection) -> None:
        """Put a dead line in place of the one to the server, which is kept here."""
        self.server_end = socket.socket(fileno=os.dup(own.fileno()))
        self.server_end.settimeout(20)
        if self.arrives_at_once:
            self.deliver()
        ours, other = socket.socketpair()
        other.close()
        os.dup2(ours.fileno(), own.fileno())
        ours.close()

    def deliver(self) -> bytes:
        """Let the server have the message after all; return its answer."""
        self.server_end.sendall(b"Q" + struct.pack("!i", 4 + len(self.message)))
        self.server_end.sendall(self.message)
        answer = b""
        while b"Z\0\0\0\5" not in answer:  # ready for the next query
            answer += self.server_end.recv(1_000)
        return answer


@pytest.fixture
def doubt(monkeypatch):
    doubt = Doubt(monkeypatch)
    yield doubt
    doubt.server_end.close()


@task(atomic=True, backoff=lambda failures: 0)
def leave_the_attempt():
    leave(f"attempt {current_job().attempt}")


def test_commit_whose_answer_is_lost_counts(effects, doubt):
    doubt.arrives_at_once = True
    job = run(leave_the_attempt)
    assert (job.status, job.attempts, job.failures) == ("SUCCESSFUL", 1, 0)
    assert (effects(), attempts()) == (["attempt 1"], [])


def test_commit_that_arrives_late_finds_another_token_and_changes_nothing(
    effects, doubt
):
    job = run(leave_the_attempt)
    before = fields_of(job)
    assert (job.status, job.attempts, job.failures) == ("SUCCESSFUL", 2, 1)
    assert atomic.OVERTAKEN.encode() in doubt.deliver()
    assert (fields_of(job), effects()) == (before, ["attempt 2"])


own_sockets: list[socket.socket] = []


@task(atomic=True, backoff=lambda failures: 0)
def leave_and_show_socket():
    fileno = connection.connection.fileno()
    own_sockets.append(socket.socket(fileno=os.dup(fileno)))
    leave(f"attempt {current_job().attempt}")


def test_commit_that_lasts_when_its_connection_is_lost_counts_once_it_is_done(effects):
    with running_worker(slots=2) as loop:
        with lasting_commits() as waiting:
            job = leave_and_show_socket.enqueue()
            wait_for(lambda: waiting() == 1, "it commits")
            with own_sockets.pop() as own_socket:
                own_socket.shutdown(socket.SHUT_RDWR)
            wait_for(lambda: loop.in_flight.locked, "its outcome is set aside")
            assert tasks.noop.enqueue().wait(60) is None  # the others go on
            assert Job.objects.get(pk=job.pk).status == "RUNNING"
        wait_for(lambda: loop.finished == 2, "both are closed")
    job.refresh_from_db()
    assert (job.status, job.attempts, job.failures) == ("SUCCESSFUL", 1, 0)
    assert (effects(), attempts()) == (["attempt 1"], [])


def test_connection_that_is_lost_in_the_body_is_a_failed_attempt(effects):
    job = run(lose_connection)
    assert (job.status, job.attempts, job.failures) == ("SUCCESSFUL", 2, 1)
    assert effects() == ["done"]


@task(atomic=True, backoff=lambda failures: 0)
def lose_connection():
    leave("done")
    if current_job().attempt == 1:
        ((pid,),) = execute("SELECT pg_backend_pid()")  # a pooler has ids of its own
        with session() as outside:
            outside.execute("SELECT pg_terminate_backend(%s)", [pid])
        leave("no more")


# What is seen meanwhile


@task(atomic=True)
def report_and_hold(path: str):
    job = current_job()
    job.progress(1, 2, "half")
    job.log("begun")
    tasks.hold(path)
    job.progress(2, 2, "all")
    job.log("ended")


def test_progress_and_log_show_before_the_commit_and_nothing_is_lost_at_it(path):
    with running_worker():
        job = enqueue(report_and_hold, path)
        wait_for(lambda: Progress.objects.filter(message="half").exists())
        assert Job.objects.get(pk=job.pk).status == "RUNNING"
        tasks.let_go(path)
        wait_for_status(job, "SUCCESSFUL")
        wait_for(lambda: Progress.objects.get().message == "all")
    lines = Progress.objects.get().log.splitlines()
    assert [line.rpartition(" ")[2] for line in lines] == ["begun", "ended"]


@task(atomic=True)
def hold_in_hook(path: str):
    transaction.on_commit(lambda: tasks.hold(path))


def test_hooks_do_not_count_for_the_length_of_the_transaction(path):
    with running_worker():
        enqueue(hold_in_hook, path)
        wait_for(lambda: tasks.lines(path), "the hook has begun")
        assert atomic.open_since == {}
        tasks.let_go(path)


# The loop


@pytest.mark.direct
def test_success_is_announced_once_and_needs_no_statement_of_the_loop(
    settings, monkeypatch
):
    settings.PGJOBS = {
        "HEARTBEAT_INTERVAL": 600,
        "LEASE_DURATION": 3_600,
        "POLL_INTERVAL": 600,
    }
    finished, recorded = [], []

    def receive(sender, job, **named):
        finished.append((job.pk, job.status))

    signals.job_finished.connect(receive)
    try:
        with running_worker(slots=1) as loop, statements_of_workers() as executed:
            wait_for_pass(loop)  # it has started
            wait_for(lambda: loop.bell.alarm)
            executed.clear()
            claim = loop.claimer.record_and_claim

            def record_and_claim(room, fetch):
                recorded.extend(room.successes)
                return claim(room, fetch)

            monkeypatch.setattr(loop.claimer, "record_and_claim", record_and_claim)
            job = leave_and_enqueue.enqueue()
            assert job.wait(60) == "done"
            wait_for(lambda: loop.finished == 1)
            wait_for(lambda: loop.bell.alarm)
            assert loop.capacity.has_room
    finally:
        signals.job_finished.disconnect(receive)
    assert finished == [(job.pk, "SUCCESSFUL")]
    assert "loop record_and_claim" in executed
    assert not {"loop record", "loop record_with_group"} & {*executed}
    assert recorded == []


def test_jobs_that_it_enqueued_run_without_a_notification_or_a_poll(settings):
    settings.PGJOBS = {"LISTEN": False, "POLL_INTERVAL": 600}
    with WorkerThread(slots=2) as worker:
        job = enqueue(enqueue_in_transaction)
        worker.loop.bell.ring()
        wait_for_status(job, "SUCCESSFUL")
        wait_for(lambda: not Job.objects.exclude(status="SUCCESSFUL").exists())
    assert Job.objects.count() == 2


@task(atomic=True)
def enqueue_in_transaction():
    tasks.noop.enqueue()


# Other databases


@task(atomic=True, max_attempts=1)
def use_other(sql: str, in_hook: bool = False):
    def use():
        with connections["other"].cursor() as cursor:
            cursor.execute(sql)

    leave("here")
    if in_hook:
        transaction.on_commit(use)
    else:
        use()


INSERT = "INSERT INTO effect VALUES ('there')"


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    "sql",
    [
        INSERT,
        "WITH new AS (INSERT INTO effect VALUES ('x') RETURNING 1) SELECT * FROM new",
        "CALL something()",
        "/* SELECT */ DELETE FROM effect",
        "EXPLAIN ANALYZE DELETE FROM effect",
    ],
)
def test_write_to_another_database_is_refused_because_it_would_stay(effects, sql):
    job = run(use_other, sql)
    assert job.status == "FAILED"
    assert "does not cover a write to database 'other'" in job.reason
    assert effects() == []


@pytest.mark.usefixtures("other")
@pytest.mark.parametrize(
    "sql", ["SELECT 1", " ( select 1 ) ", "SHOW timezone", "/* why */ SELECT 1"]
)
def test_reading_from_another_database_is_allowed(effects, sql):
    assert run(use_other, sql).status == "SUCCESSFUL"


@task(atomic=True, max_attempts=1)
def read_in_nested_blocks():
    with transaction.atomic("other"), transaction.atomic("other"):
        return Job.objects.using("other").count()


@pytest.mark.usefixtures("other")
def test_blocks_for_reading_from_another_database_are_allowed():
    assert run(read_in_nested_blocks).return_value == 1


@pytest.mark.usefixtures("other")
def test_hooks_may_write_to_other_databases(effects):
    assert run(use_other, INSERT, in_hook=True).status == "SUCCESSFUL"
    assert sorted(effects()) == ["here", "there"]


# What it costs


@task
def plain(line: str):
    with transaction.atomic():
        leave(line)


@task(atomic=True)
def plain_but_atomic(line: str):
    leave(line)


def round_trips(task, number: int) -> int:
    """Return how often a slot asked the server, and waited, to run so many jobs."""
    traced = []
    with tempfile.NamedTemporaryFile() as file:

        def trace(connection, **named):
            if threading.current_thread() is not threading.main_thread():
                traced.append(connection.connection.pgconn)
                traced[-1].trace(file.fileno())

        connection_created.connect(trace)
        try:
            with running_worker(slots=1) as loop:
                for _ in range(number):
                    task.enqueue(os.urandom(8).hex())
                wait_for(lambda: loop.finished == number)
                traced[0].untrace()  # and write what is buffered
        finally:
            connection_created.disconnect(trace)
        assert len(traced) == 1
        return Path(file.name).read_text().count("ReadyForQuery")


def test_atomic_task_costs_no_round_trip_beyond_those_of_a_transaction(monkeypatch):
    """It has those of a block around the body. The completion needs no other one."""
    monkeypatch.setitem(connections.databases["default"], "CONN_MAX_AGE", None)

    def for_each_job(task) -> float:
        return (round_trips(task, 6) - round_trips(task, 1)) / 5

    in_block = for_each_job(plain)
    assert in_block >= 3  # BEGIN, INSERT, COMMIT; and looks whether it still connects
    assert for_each_job(plain_but_atomic) == in_block


# Declarations


@pytest.mark.parametrize("value", [None, 1, 0, "yes", [], -1])
def test_atomic_is_true_or_false(value):
    with pytest.raises(InvalidTask, match="atomic must be True or False"):
        declared(atomic=value)


def test_async_task_cannot_be_atomic():
    function = module("async def function(): pass").function
    with pytest.raises(InvalidTask, match=r"tests\.written\.function cannot be atomic"):
        task(atomic=True)(function)
    assert issubclass(InvalidTask, ImproperlyConfigured)


def test_being_atomic_belongs_to_the_task_not_to_a_job():
    with pytest.raises(InvalidTask, match="atomic"):
        tasks.noop.using(atomic=True)
    assert declared(atomic=True).using(priority=5).options.atomic
    assert not Options().atomic


def test_atomic_task_is_still_a_plain_function(effects):
    with transaction.atomic():
        assert leave_and_enqueue("by hand") == "by hand"
    assert effects() == ["by hand"]
    assert asyncio.iscoroutinefunction(leave_and_enqueue.function) is False
