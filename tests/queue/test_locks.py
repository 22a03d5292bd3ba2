"""Locks: no two jobs at the same time, in order, and never held by what is gone."""

from contextlib import contextmanager
from time import monotonic

import pytest
from django.db import transaction
from django.db.utils import IntegrityError

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Batch, Job, Note, Predecessor
from pgjobs.queue import admitting, upkeep
from pgjobs.worker.upkeep.admission import FIRST_PAUSE
from tests import harness, tasks
from tests.actors import (
    Hand,
    admit,
    execute,
    hours,
    linked_job,
    session,
    statuses,
    stored_statuses,
)
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)
from tests.settings import SCHEMA

pytestmark = [shared_queue, pytest.mark.usefixtures("unhurried")]

locked = tasks.noop.using(lock="door")
mutex = tasks.noop.using(lock="door", lock_mode="mutex")
free = tasks.noop
READY_BY_HAND = "UPDATE pgjobs_job SET status = 'READY', waiting_for = NULL"
INSERT = """
    INSERT INTO pgjobs_job (task, keys)
    VALUES ('tests.noop', '{"lock": "door"}') RETURNING id
"""
HOLD_ROW = "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"


@pytest.fixture(autouse=True)
def served():
    """Let all queues have a worker that lives: without one no job is admitted."""
    Hand("living")


@pytest.fixture
def clerk():
    """A session of a role that has one right."""
    with harness.role("clerk", "LOGIN PASSWORD 'clerk'") as name:
        execute(f"GRANT INSERT ON pgjobs_job TO {name}")
        with session(user=name, password="clerk") as made:
            yield made


# One after the other


def test_second_job_of_a_lock_waits_for_the_first_and_says_so():
    first, second = enqueue(locked), enqueue(locked)
    assert (first.status, first.waiting_for) == ("WAITING", "lock")
    assert (second.status, second.waiting_for) == ("WAITING", "lock")
    assert statuses() == ["READY", "WAITING"]
    first.refresh_from_db()
    assert (first.waiting_for, first.blocked_by_id) == (None, None)
    second.refresh_from_db()
    assert (second.waiting_for, second.blocked_by_id) == ("lock", first.pk)


def test_waiting_job_is_not_claimed_and_becomes_ready_when_the_first_ends():
    first, second = enqueue(locked), enqueue(locked)
    hand = Hand()
    (claimed,) = hand.claim(10)
    assert claimed.id == first.pk
    assert hand.succeed(claimed)
    assert statuses() == ["SUCCESSFUL", "READY"]
    second.refresh_from_db()
    assert (second.waiting_for, second.blocked_by_id) == (None, None)
    assert hand.claim_one().id == second.pk


def test_jobs_of_other_locks_and_of_none_do_not_wait():
    for task in (locked, free, locked.using(lock="gate"), free):
        enqueue(task)
    assert stored_statuses() == ["WAITING", "READY", "WAITING", "READY"]
    assert statuses() == ["READY"] * 4


def test_jobs_of_one_statement_wait_for_its_first():
    jobs = enqueue_many([locked.bind(), free.bind(), locked.bind(), locked.bind()])
    assert len(jobs) == 4
    assert statuses() == ["READY", "READY", "WAITING", "WAITING"]


@pytest.mark.parametrize("task", [locked, mutex, free.using(max_running=1)])
def test_jobs_that_are_enqueued_together_wait_from_the_beginning(task):
    """Otherwise a claim would walk past them until an admission decides."""
    jobs = enqueue_many([task.bind() for _ in range(3)])
    assert [job.status for job in jobs] == ["WAITING"] * 3
    # Rows that a trigger writes again belong to a later command.
    assert execute("SELECT count(DISTINCT cmin::text) FROM pgjobs_job") == [(1,)]
    assert statuses() == ["READY", "WAITING", "WAITING"]


def test_row_inserted_by_sql_waits_too():
    enqueue(locked)
    execute(INSERT)
    assert statuses() == ["READY", "WAITING"]


@pytest.mark.parametrize("verdict", ["FAIL", "CANCEL"])
def test_holder_that_ends_otherwise_admits_the_next_one(verdict):
    hand = Hand()
    enqueue_many([locked.bind(), locked.bind()])
    hand.set_back(hand.claim_one(), verdict)
    assert statuses()[1] == "READY"


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed", "discard", "delete"])
def test_operators_act_on_the_holder_admits_the_next_one(act, claimed):
    first, second = enqueue_many([locked.bind(), locked.bind()])
    admit()
    if claimed:
        Hand().claim_one()
    getattr(Job.objects.filter(pk=first.pk), act)()
    admit()
    second.refresh_from_db()
    keeps = claimed and act in ("cancel", "discard")
    assert second.status == ("WAITING" if keeps else "READY")


def test_holder_of_a_dead_worker_is_rescued_and_keeps_its_place():
    first, _ = enqueue_many([locked.bind(), locked.bind()])
    dead, hand = Hand("dead"), Hand()
    dead.claim_one()
    dead.vanish()
    hand.rescue()
    assert statuses() == ["READY", "WAITING"]
    assert hand.claim_one().id == first.pk


def test_released_holder_keeps_its_place():
    enqueue_many([locked.bind(), locked.bind()])
    hand = Hand()
    hand.set_back(hand.claim_one(), "RELEASE")
    assert statuses() == ["READY", "WAITING"]


def test_waiting_job_that_ends_admits_no_other():
    first, second, third = enqueue_many([locked.bind() for _ in range(3)])
    admit()
    second.cancel()
    assert statuses() == ["READY", "CANCELLED", "WAITING"]
    first.cancel()
    assert statuses() == ["CANCELLED", "CANCELLED", "READY"]
    assert third.pk


# Order


def test_jobs_of_a_lock_start_in_the_order_of_their_ids_whatever_their_priority():
    low, high = enqueue(locked), enqueue(locked.using(priority=100))
    last = enqueue(locked.using(priority=50))
    hand, started = Hand(), []
    for _ in range(3):
        claimed = hand.claim_one()
        started.append(claimed.id)
        hand.succeed(claimed)
    assert started == [low.pk, high.pk, last.pk]


def test_earlier_job_that_is_scheduled_holds_the_later_ones_back():
    first = enqueue(locked.using(run_after=hours(1)))
    second = enqueue(locked)
    assert statuses() == ["SCHEDULED", "WAITING"]
    second.refresh_from_db()
    assert second.blocked_by_id == first.pk
    first.run_now()
    assert statuses() == ["READY", "WAITING"]


def test_earlier_job_that_backs_off_holds_the_later_ones_back():
    enqueue_many([locked.bind(), locked.bind()])
    hand = Hand()
    assert hand.set_back(hand.claim_one(), "RETRY", delay=60) == "SCHEDULED"
    assert statuses() == ["SCHEDULED", "WAITING"]
    past = "UPDATE pgjobs_job SET run_after = now() WHERE status = 'SCHEDULED'"
    execute(past)
    upkeep.promote(execute)
    assert statuses() == ["READY", "WAITING"]


def test_scheduled_job_that_ends_admits_the_later_ones():
    first, _ = enqueue(locked.using(run_after=hours(1))), enqueue(locked)
    assert statuses() == ["SCHEDULED", "WAITING"]
    first.cancel()
    assert statuses() == ["CANCELLED", "READY"]


def test_later_job_that_comes_due_waits_for_the_earlier_one_that_runs():
    enqueue(locked)
    later = enqueue(locked.using(run_after=hours(1)))
    Hand().claim_one()
    later.run_now()
    assert statuses() == ["RUNNING", "WAITING"]


def test_retried_job_waits_for_the_holder_and_goes_before_the_others():
    first, second, third = enqueue_many([locked.bind() for _ in range(3)])
    admit()
    first.cancel()
    assert statuses() == ["CANCELLED", "READY", "WAITING"]
    assert first.retry()
    admit()
    first.refresh_from_db()
    assert (first.status, first.blocked_by_id) == ("WAITING", second.pk)
    second.cancel()
    assert statuses() == ["READY", "CANCELLED", "WAITING"]
    assert third.pk


def test_jobs_that_are_retried_together_go_one_after_the_other():
    jobs = enqueue_many([locked.bind() for _ in range(4)])
    admit()
    Job.objects.all().cancel()
    Job.objects.all().retry()
    assert statuses() == ["READY", "WAITING", "WAITING", "WAITING"]
    assert jobs


# Jobs that are replaced

named = tasks.hold.using(
    lock="file-{path}", unique_key="unique", on_conflict="replace", lock_mode="mutex"
)


def test_replaced_job_has_the_lock_of_its_new_arguments():
    other = enqueue(tasks.noop.using(lock="file-b"))
    job = enqueue(named, "a")
    behind = enqueue(tasks.noop.using(lock="file-a"))
    assert statuses() == ["READY", "READY", "WAITING"]
    enqueue(named, "b")
    assert statuses() == ["READY", "WAITING", "READY"]
    other.cancel()
    behind.cancel()
    assert statuses() == ["CANCELLED", "READY", "CANCELLED"]
    assert Job.objects.ready().get() == job


def test_replaced_job_keeps_its_position_in_the_lock_that_it_keeps():
    limited = locked.using(
        unique_key="unique", on_conflict="replace", max_running=1, limit_key="a"
    )
    for task in (limited, locked, limited.using(limit_key="b")):
        enqueue(task)
        admit()
    assert stored_statuses() == ["READY", "WAITING"]
    assert Job.objects.ready().get().keys["limit_key"] == "b"
    # The old key is free.
    enqueue(tasks.noop.using(max_running=1, limit_key="a"))
    assert statuses() == ["READY", "WAITING", "READY"]


def test_replaced_job_without_keys_admits_the_next_one():
    replacing = tasks.hold.using(unique_key="unique", on_conflict="replace")
    enqueue(replacing.using(lock="door"), "a")
    enqueue(locked)
    assert statuses() == ["READY", "WAITING"]
    enqueue(replacing.using(lock=lambda path: None), "b")
    assert statuses() == ["READY", "READY"]


# Mutex


def test_mutex_excludes_but_keeps_no_order():
    later = enqueue(mutex.using(run_after=hours(1)))
    for _ in range(2):
        enqueue(mutex)
    assert statuses() == ["SCHEDULED", "READY", "WAITING"]
    later.run_now()
    assert statuses() == ["WAITING", "READY", "WAITING"]


@pytest.mark.parametrize("first", [locked, mutex])
def test_both_modes_of_a_lock_exclude_each_other(first):
    second = mutex if first is locked else locked
    enqueue(first)
    enqueue(second)
    assert statuses() == ["READY", "WAITING"]
    hand = Hand()
    hand.succeed(hand.claim_one())
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_mutex_passes_ordered_jobs_that_wait_for_a_scheduled_one():
    holder = enqueue(mutex)
    enqueue(locked.using(run_after=hours(1)))
    enqueue(locked)
    enqueue(mutex)
    assert statuses() == ["READY", "SCHEDULED", "WAITING", "WAITING"]
    holder.cancel()
    assert statuses() == ["CANCELLED", "SCHEDULED", "WAITING", "READY"]


# Transactions that race. None waits for another.


def test_first_of_two_transactions_to_commit_gets_the_lock():
    with session() as one, session() as two:
        for each in (one, two):
            each.begin()
            each.execute(INSERT)
        two.commit()
        assert statuses() == ["READY"]
        one.commit()
    assert statuses() == ["WAITING", "READY"]


def test_only_one_of_two_jobs_committed_before_a_worker_fetches_gets_the_lock():
    with session() as one, session() as two:
        for each in (one, two):
            each.begin()
            each.execute(INSERT)
        two.commit()
        one.commit()
    assert statuses() == ["READY", "WAITING"]


def test_job_inserted_while_a_worker_admits_is_admitted_by_the_next_one():
    with session() as one, session() as two, session() as ear:
        ear.listen("pgjobs_admission")
        one.begin()
        assert admitting.admit(one.execute).admitted == 0
        two.execute(INSERT)
        assert admitting.admit(execute).admitted is None
        assert stored_statuses() == ["WAITING"]
        assert ear.heard() == [("pgjobs_admission", "default")]
        one.commit()
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["READY"]


def test_job_that_arrives_while_the_holder_is_about_to_end_is_admitted_by_its_end():
    enqueue(locked)
    with session() as worker:
        hand = Hand(execute=worker.execute)
        claimed = hand.claim_one()
        worker.begin()
        assert hand.succeed(claimed)
        enqueue(locked)
        assert statuses() == ["RUNNING", "WAITING"]
        worker.commit()
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["SUCCESSFUL", "READY"]


def test_job_that_arrives_when_the_holders_end_is_decided_is_left_to_the_next_one():
    enqueue(locked)
    with session() as worker, session() as ear:
        hand = Hand(execute=worker.execute)
        claimed = hand.claim_one()
        ear.listen("pgjobs_admission")
        worker.begin()
        assert hand.succeed(claimed)
        assert admitting.admit(worker.execute).admitted == 0
        enqueue(locked)
        worker.commit()
        assert stored_statuses() == ["SUCCESSFUL", "WAITING"]
        assert ("pgjobs_admission", "default") in ear.heard()
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["SUCCESSFUL", "READY"]


def test_holder_whose_end_is_rolled_back_keeps_its_place():
    first = enqueue(locked)
    enqueue(locked)
    assert statuses() == ["READY", "WAITING"]
    with transaction.atomic():
        first.cancel()
        assert statuses() == ["CANCELLED", "READY"]
        transaction.set_rollback(True)
    assert statuses() == ["READY", "WAITING"]


def test_job_of_an_old_snapshot_waits_for_one_that_it_does_not_see():
    with session() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pgjobs_job")
        enqueue(locked)
        assert statuses() == ["READY"]
        old.execute(INSERT)
        old.commit()
    assert statuses() == ["READY", "WAITING"]
    Job.objects.filter(status="READY").cancel()
    assert statuses() == ["CANCELLED", "READY"]


@pytest.mark.parametrize("task", [locked, mutex])
def test_job_whose_row_another_session_holds_is_admitted_once_it_is_released(task):
    first, second = enqueue(task), enqueue(task)
    admit()
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROW, {"id": second.pk})
        first.cancel()
        for _ in range(3):
            admission = admitting.admit(execute)
            assert (admission.admitted, admission.is_blocked) == (0, True)
        holder.commit()
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["CANCELLED", "READY"]
    assert not Note.objects.exists()


def test_held_row_of_a_mutex_is_skipped():
    first, second, third = enqueue(mutex), enqueue(mutex), enqueue(mutex)
    admit()
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROW, {"id": second.pk})
        first.cancel()
        admit()
    third.refresh_from_db()
    assert third.status == "READY"


def test_names_mean_our_tables_whatever_the_session_that_commits_says():
    enqueue(locked)
    with session() as strange:
        strange.execute("CREATE TEMP TABLE pgjobs_job (id int)")
        strange.execute("SET search_path = pg_temp")
        strange.execute(INSERT.replace("pgjobs_job", f"{SCHEMA}.pgjobs_job"))
    assert statuses() == ["READY", "WAITING"]


def test_many_keys_do_not_fill_the_lock_table():
    """With a lock of its own for each, COMMIT would fail: out of shared memory."""
    advisory = (
        "SELECT count(*) FROM pg_locks"
        " WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
    )
    with session() as own:
        own.begin()
        own.execute(
            "INSERT INTO pgjobs_job (task, keys)"
            " SELECT 'tests.noop', jsonb_build_object('lock', 'file-' || n)"
            " FROM generate_series(1, 3000) AS n"
        )
        assert own.execute(advisory) == [(0,)]
        assert admit(own.execute) == 3000
        assert own.execute(advisory) == [(1,)]
        own.rollback()


# The last line


def test_no_two_jobs_can_hold_a_lock():
    enqueue_many([locked.bind(), locked.bind()])
    admit()
    execute("SET pgjobs.admits = on")  # as if an admission had decided so
    try:
        with pytest.raises(IntegrityError, match="pgjobs_job_lock"):
            execute(READY_BY_HAND + ", line = NULL")
    finally:
        execute("RESET pgjobs.admits")


@pytest.mark.parametrize("line", ["", ", line = NULL"])
def test_job_that_is_made_ready_by_hand_still_waits_for_its_lock(line):
    enqueue_many([locked.bind(), locked.bind()])
    admit()
    execute(READY_BY_HAND + line)
    assert statuses() == ["READY", "WAITING"]


def test_jobs_that_are_truncated_keep_no_other_back():
    enqueue_many([locked.bind(), locked.bind()])
    linked_job(after=linked_job(batch=Batch.objects.create()))
    admit()
    enqueue(locked).delete()
    assert Note.objects.exists()
    execute("TRUNCATE pgjobs_job CASCADE")
    for left in (Note, Predecessor, Batch):
        assert not left.objects.exists()
    enqueue(locked)
    assert statuses() == ["READY"]


# Others than the application


def test_role_that_may_only_insert_jobs_can_give_them_keys(clerk):
    clerk.execute(INSERT.partition("RETURNING")[0])
    clerk.execute(INSERT.partition("RETURNING")[0])
    assert statuses() == ["READY", "WAITING"]


# Workers


def test_worker_without_notifications_runs_the_jobs_of_a_lock_without_a_pause():
    enqueue_many([locked.bind() for _ in range(20)])
    with running_worker(slots=4, poll=600, listen=False):
        wait_for_all("SUCCESSFUL")


def test_worker_admits_as_soon_as_another_one_does_no_more():
    with running_worker(poll=600, slots=1) as loop, session() as other:
        loop.admitting.sweeping.due = float("inf")
        wait_for(
            lambda: not loop.admitting.is_expecting(monotonic()),
            "it has nothing to admit",
        )
        other.begin()
        assert admitting.admit(other.execute).admitted == 0
        job = enqueue(locked)
        wait_for(lambda: loop.admitting.pause > FIRST_PAUSE, "the worker has tried")
        other.commit()
        wait_for_status(job, "SUCCESSFUL")
        wait_for(lambda: not loop.admitting.is_expecting(monotonic()))


def test_notification_of_an_end_alone_ends_the_workers_sleep():
    with running_worker(poll=600, slots=1, queues=("default",)) as loop:
        wait_for(lambda: loop.listener.state == "on", "the worker listens")
        loop.admitting.sweeping.due = loop.upkeep.survey.due = float("inf")
        for chore in loop.upkeep.chores:
            chore.due = float("inf")
        elsewhere = enqueue(locked.using(queue_name="elsewhere"))
        job = enqueue(locked)
        wait_for(lambda: Job.objects.ready().exists(), "the first is admitted")
        in_line = Job.objects.filter(pk=job.pk, line__startswith="lock")
        wait_for(in_line.exists, "the second waits in its line")
        wait_for(
            lambda: not loop.admitting.is_expecting(monotonic()), "the worker sleeps"
        )
        elsewhere.cancel()
        wait_for_status(job, "SUCCESSFUL")


@contextmanager
def without_triggers():
    execute("ALTER TABLE pgjobs_job DISABLE TRIGGER USER")
    try:
        yield
    finally:
        execute("ALTER TABLE pgjobs_job ENABLE TRIGGER USER")


def forget(job: Job) -> None:
    """Let a job wait for nothing, as nothing but a bug could."""
    with without_triggers():
        Job.objects.filter(pk=job.pk).update(
            status="WAITING",
            waiting_for="lock",
            line=f"lock {job.keys['lock']}",
        )


@pytest.mark.parametrize("task", [locked, mutex, tasks.noop.using(max_running=1)])
def test_sweep_finds_that_a_job_with_a_lock_is_gone(task):
    first, _ = enqueue_many([task.bind(), task.bind()])
    assert statuses() == ["READY", "WAITING"]
    with without_triggers():
        execute("DELETE FROM pgjobs_job WHERE id = %(id)s", {"id": first.pk})
    admitting.admit(execute, sweeps=True)
    assert stored_statuses() == ["READY"]


def test_job_that_was_not_inserted_after_all_takes_no_lock():
    """This happens with ON CONFLICT DO NOTHING."""
    execute("CREATE UNIQUE INDEX once ON pgjobs_job (task) WHERE priority = 1")
    try:
        insert = """
            INSERT INTO pgjobs_job (task, priority, keys) VALUES ('t', 1, %(keys)s)
            ON CONFLICT DO NOTHING
        """
        for lock in ("gate", "door"):
            execute(insert, {"keys": f'{{"lock": "{lock}"}}'})
    finally:
        execute("DROP INDEX once")
    enqueue(locked)
    admitting.admit(execute)
    assert stored_statuses() == ["READY", "READY"]


def test_sweep_finds_what_was_forgotten():
    job = enqueue(locked)
    forget(job)
    with running_worker(poll=600) as loop:
        loop.admitting.sweeping.due = 0
        loop.bell.ring()
        wait_for_status(job, "SUCCESSFUL")


def test_drain_does_not_end_before_it_has_looked_for_the_forgotten():
    job = enqueue(locked)
    forget(job)
    assert drain(listen=False).finished == 1
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_sweep_goes_on_where_a_batch_ended(monkeypatch):
    jobs = [enqueue(tasks.noop.using(lock=name)) for name in "abcdefghij"]
    admit()
    for job in jobs:
        forget(job)
    monkeypatch.setattr(admitting, "MOST_ADMITTED", 1)  # and four times as many lines
    position, found = admitting.BEGINNING, []
    for _ in range(3):
        admission = admitting.admit(execute, position, sweeps=True)
        position = admission.position
        found.append(stored_statuses().count("READY"))
    assert found == [4, 8, 10]
    assert position == admitting.BEGINNING


def test_job_that_is_retried_before_an_admission_saw_its_end_waits_for_its_lock():
    hand = Hand()
    job = locked.enqueue()
    assert hand.succeed(hand.claim_one())
    assert Job.objects.get().line == "recorded"
    assert job.retry()
    job.refresh_from_db()
    assert (job.status, job.line) == ("WAITING", "arrived")
    assert statuses() == ["READY"]
