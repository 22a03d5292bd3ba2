"""Locks: no two jobs at the same time, in order, and never held by what is gone."""

from contextlib import contextmanager

import psycopg
import pytest
from django.db import transaction
from django.db.utils import IntegrityError

from pgjobs import enqueue, enqueue_many
from pgjobs.models import Hold, Job, work
from pgjobs.models.work import Key
from tests import tasks
from tests.actors import Hand, execute, hours, session
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_all,
    wait_for_status,
)

pytestmark = shared_queue

locked = tasks.noop.using(lock="door")
mutex = tasks.noop.using(lock="door", lock_mode="mutex")
free = tasks.noop
INSERT = """
    INSERT INTO pgjobs_job (task, keys)
    VALUES ('tests.noop', '{"lock": "door"}') RETURNING id
"""
DOOR = Key("lock", "door")


@pytest.fixture
def clerk():
    """A session of a role that has one right."""
    execute("CREATE ROLE clerk LOGIN")
    try:
        execute("GRANT INSERT ON pgjobs_job TO clerk")
        with session(user="clerk") as made:
            yield made
    finally:
        execute("DROP OWNED BY clerk")
        execute("DROP ROLE clerk")


def statuses() -> list[str]:
    """Return what all jobs are, in the order of their ids."""
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


def settle(*keys: Key) -> list[int | None]:
    """Do what a worker does that hears of unsettled keys."""
    return list(work.settle(execute, keys).values())


# One after the other


def test_second_job_of_a_lock_waits_for_the_first_and_says_so():
    first, second = enqueue(locked), enqueue(locked)
    assert (first.status, second.status) == ("READY", "WAITING")
    assert (second.waiting_for, second.blocked_by_id) == ("lock", first.pk)
    second.refresh_from_db()
    assert (second.status, second.blocked_by_id) == ("WAITING", first.pk)


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
    jobs = [enqueue(task) for task in (locked, free, locked.using(lock="gate"), free)]
    assert {job.status for job in jobs} == {"READY"}


def test_jobs_of_one_statement_wait_for_its_first():
    jobs = enqueue_many([locked.bind(), free.bind(), locked.bind(), locked.bind()])
    assert len(jobs) == 4
    assert statuses() == ["READY", "READY", "WAITING", "WAITING"]


@pytest.mark.parametrize("task", [locked, mutex, free.using(max_running=1)])
def test_jobs_that_are_enqueued_together_wait_from_the_beginning(task):
    """Or the claim walks past all that was READY until the COMMIT."""
    jobs = enqueue_many([task.bind() for _ in range(3)])
    assert [job.status for job in jobs] == ["READY", "WAITING", "WAITING"]
    # Rows that the COMMIT writes again belong to a later command.
    assert execute("SELECT count(DISTINCT cmin::text) FROM pgjobs_job") == [(1,)]


def test_row_that_anybody_inserts_waits_too():
    enqueue(locked)
    execute(INSERT)
    assert statuses() == ["READY", "WAITING"]


@pytest.mark.parametrize("verdict", ["FAIL", "CANCEL"])
def test_holder_that_ends_otherwise_lets_the_next_one_go(verdict):
    hand = Hand()
    enqueue_many([locked.bind(), locked.bind()])
    hand.set_back(hand.claim_one(), verdict)
    assert statuses()[1] == "READY"


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed", "discard", "delete"])
def test_operators_act_on_the_holder_lets_the_next_one_go(act, claimed):
    first, second = enqueue_many([locked.bind(), locked.bind()])
    if claimed:
        Hand().claim_one()
    getattr(Job.objects.filter(pk=first.pk), act)()
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


def test_waiting_jobs_that_end_let_nobody_pass():
    first, second, third = enqueue_many([locked.bind() for _ in range(3)])
    second.cancel()
    assert statuses() == ["READY", "CANCELLED", "WAITING"]
    first.cancel()
    third.refresh_from_db()
    assert third.status == "READY"


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
    assert (first.status, second.status) == ("SCHEDULED", "WAITING")
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
    work.promote(execute)
    assert statuses() == ["READY", "WAITING"]


def test_scheduled_job_that_ends_lets_the_later_ones_go():
    first, _ = enqueue(locked.using(run_after=hours(1))), enqueue(locked)
    first.cancel()
    assert statuses() == ["CANCELLED", "READY"]


def test_later_job_that_comes_due_waits_for_the_earlier_one_that_runs():
    enqueue(locked)
    later = enqueue(locked.using(run_after=hours(1)))
    Hand().claim_one()
    later.run_now()
    assert statuses() == ["RUNNING", "WAITING"]


def test_retried_job_waits_for_who_has_the_place_and_goes_before_the_others():
    first, second, third = enqueue_many([locked.bind() for _ in range(3)])
    first.cancel()
    assert statuses() == ["CANCELLED", "READY", "WAITING"]
    assert first.retry()
    first.refresh_from_db()
    assert (first.status, first.blocked_by_id) == ("WAITING", second.pk)
    second.cancel()
    assert statuses() == ["READY", "CANCELLED", "WAITING"]
    assert third.pk


def test_jobs_that_are_retried_together_go_one_after_the_other():
    jobs = enqueue_many([locked.bind() for _ in range(4)])
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
    assert Hold.objects.get().pk == job.pk


def test_replaced_job_keeps_its_turn_in_the_lock_that_it_keeps():
    limited = locked.using(
        unique_key="unique", on_conflict="replace", max_running=1, limit_key="a"
    )
    for task in (limited, locked, limited.using(limit_key="b")):
        enqueue(task)
    assert statuses() == ["READY", "WAITING"]
    assert Hold.objects.get(state="place").limit_key == "b"


def test_replaced_job_without_keys_lets_the_next_one_go():
    replacing = tasks.hold.using(unique_key="unique", on_conflict="replace")
    enqueue(replacing.using(lock="door"), "a")
    behind = enqueue(locked)
    enqueue(replacing.using(lock=lambda path: None), "b")
    assert statuses() == ["READY", "READY"]
    assert Hold.objects.get().pk == behind.pk


# Mutex


def test_mutex_excludes_but_keeps_no_order():
    later = enqueue(mutex.using(run_after=hours(1)))
    assert enqueue(mutex).status == "READY"
    assert enqueue(mutex).status == "WAITING"
    later.run_now()
    assert statuses() == ["WAITING", "READY", "WAITING"]


@pytest.mark.parametrize("first", [locked, mutex])
def test_both_modes_of_a_lock_exclude_each_other(first):
    second = mutex if first is locked else locked
    assert enqueue(first).status == "READY"
    assert enqueue(second).status == "WAITING"
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


def test_of_two_open_transactions_the_first_to_commit_has_the_place():
    with session() as one, session() as two:
        for each in (one, two):
            each.begin()
            each.execute(INSERT)
        two.commit()
        one.commit()
    assert statuses() == ["WAITING", "READY"]


def test_who_commits_while_another_one_decides_waits_and_tells_the_workers():
    with session() as one, session() as two, session() as ear:
        ear.listen("pgjobs_unsettled")
        one.begin()
        one.execute("SELECT pgjobs_try_keys('door')")
        two.execute(INSERT)
        assert statuses() == ["WAITING"]
        assert ear.heard() == [("pgjobs_unsettled", "lock door")]
        assert settle(DOOR) == [None]
        one.commit()
    assert settle(DOOR) == [1]
    assert statuses() == ["READY"]


def test_job_that_arrives_while_the_holder_is_about_to_end_is_let_go_by_its_end():
    enqueue(locked)
    with session() as worker:
        hand = Hand(execute=worker.execute)
        claimed = hand.claim_one()
        worker.begin()
        assert hand.succeed(claimed)
        assert enqueue(locked).status == "WAITING"
        worker.commit()
    assert statuses() == ["SUCCESSFUL", "READY"]


def test_job_that_arrives_when_the_holders_end_is_decided_is_left_to_the_workers():
    enqueue(locked)
    with session() as worker, session() as ear:
        ear.listen("pgjobs_unsettled")
        hand = Hand(execute=worker.execute)
        claimed = hand.claim_one()
        worker.begin()
        assert hand.succeed(claimed)
        worker.execute("SET CONSTRAINTS ALL IMMEDIATE")  # as if about to commit
        enqueue(locked)
        worker.commit()
        assert statuses() == ["SUCCESSFUL", "WAITING"]
        assert ear.heard() == [("pgjobs_unsettled", "lock door")]
    assert settle(DOOR) == [1]


def test_holder_whose_end_is_rolled_back_keeps_its_place():
    first = enqueue(locked)
    enqueue(locked)
    with transaction.atomic():
        first.cancel()
        transaction.set_rollback(True)
    assert statuses() == ["READY", "WAITING"]


def test_job_of_an_old_snapshot_is_left_to_the_workers():
    with session() as old:
        old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        old.execute("SELECT count(*) FROM pgjobs_job")
        enqueue(locked)
        old.execute(INSERT)
        old.commit()
    assert statuses() == ["READY", "WAITING"]
    assert settle(DOOR) == [0]
    Job.objects.filter(status="READY").cancel()
    assert statuses() == ["CANCELLED", "READY"]


def test_job_whose_row_somebody_holds_is_asked_for_again():
    first, second = enqueue(locked), enqueue(locked)
    with session() as somebody, session() as ear:
        ear.listen("pgjobs_unsettled")
        somebody.begin()
        row = {"id": second.pk}
        somebody.execute("SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", row)
        first.cancel()
        assert ear.heard() == [("pgjobs_unsettled", "lock door")]
        assert settle(DOOR) == [None]
        somebody.commit()
    assert settle(DOOR) == [1]


def test_held_row_of_a_mutex_is_passed_over():
    first, second, third = enqueue(mutex), enqueue(mutex), enqueue(mutex)
    with session() as somebody:
        somebody.begin()
        row = {"id": second.pk}
        somebody.execute("SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", row)
        first.cancel()
    third.refresh_from_db()
    assert third.status == "READY"


def test_names_mean_our_tables_whatever_the_session_that_commits_says():
    enqueue(locked)
    with session() as strange:
        strange.execute("CREATE TEMP TABLE pgjobs_job (id int)")
        strange.execute("SET search_path = pg_temp")
        strange.execute(INSERT.replace("pgjobs_job", "public.pgjobs_job"))
    assert statuses() == ["READY", "WAITING"]


def test_many_keys_do_not_fill_the_lock_table():
    """With a lock of its own for each, COMMIT would fail: out of shared memory."""
    with session() as own:
        own.begin()
        own.execute(
            "INSERT INTO pgjobs_job (task, keys)"
            " SELECT 'tests.noop', jsonb_build_object('lock', 'file-' || n)"
            " FROM generate_series(1, 3000) AS n"
        )
        own.execute("SET CONSTRAINTS ALL IMMEDIATE")
        ((number,),) = own.execute(
            "SELECT count(*) FROM pg_locks"
            " WHERE pid = pg_backend_pid() AND locktype = 'advisory'"
        )
        own.rollback()
    assert 500 < number <= 1024


# The last line


def test_no_two_jobs_of_a_lock_can_have_its_place():
    enqueue_many([locked.bind(), locked.bind()])
    with pytest.raises(IntegrityError, match="pgjobs_hold_lock_place"):
        execute("UPDATE pgjobs_hold SET state = 'place'")


def test_job_that_somebody_makes_ready_by_hand_waits_all_the_same():
    enqueue_many([locked.bind(), locked.bind()])
    execute("UPDATE pgjobs_job SET status = 'READY', waiting_for = NULL")
    assert statuses() == ["READY", "WAITING"]


def test_row_of_a_job_that_is_gone_keeps_nobody_back():
    """Only switched-off triggers can leave one; or TRUNCATE, which has its own."""
    enqueue_many([locked.bind(), locked.bind()])
    execute("TRUNCATE pgjobs_job CASCADE")
    assert not Hold.objects.exists()
    assert enqueue(locked).status == "READY"


# Others than the application


def test_role_that_may_only_insert_jobs_can_give_them_keys(clerk):
    clerk.execute(INSERT.partition("RETURNING")[0])
    clerk.execute(INSERT.partition("RETURNING")[0])
    assert statuses() == ["READY", "WAITING"]


def test_nobody_else_can_make_triggers_of_functions_that_act_for_everybody(clerk):
    clerk.execute("CREATE TEMP TABLE job (id bigint, status text)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="pgjobs_settle"):
        clerk.execute(
            "CREATE TRIGGER mine AFTER INSERT ON job"
            " FOR EACH ROW EXECUTE FUNCTION public.pgjobs_settle_changed()"
        )


# Workers


def test_worker_without_notifications_runs_the_jobs_of_a_lock_without_a_pause():
    enqueue_many([locked.bind() for _ in range(20)])
    with running_worker(slots=4, poll=600, listen=False):
        wait_for_all("SUCCESSFUL")


def test_worker_settles_what_another_one_left_when_it_is_told():
    with running_worker(poll=600, slots=1) as loop, session() as somebody:
        loop.settling.sweeping.due = float("inf")
        somebody.begin()
        somebody.execute("SELECT pgjobs_try_keys('door')")
        job = enqueue(locked)
        wait_for(lambda: loop.settling.tries, "the worker has heard of the key")
        somebody.commit()
        wait_for_status(job, "SUCCESSFUL")
        wait_for(lambda: not loop.settling.tries)


def test_key_that_nothing_but_a_notification_tells_of_ends_the_workers_sleep():
    with running_worker(poll=600, slots=1, queues=("default",)) as loop:
        wait_for(lambda: loop.listener.state == "on", "the worker listens")
        loop.settling.sweeping.due = loop.maintenance.rescuing.due = float("inf")
        loop.maintenance.expiring.due = loop.maintenance.pruning.due = float("inf")
        loop.scheduler.due = float("inf")
        elsewhere = enqueue(locked.using(queue_name="elsewhere"))
        job = enqueue(locked)
        with session() as somebody:
            somebody.begin()
            somebody.execute("SELECT pgjobs_try_keys('door')")
            elsewhere.cancel()
            somebody.commit()
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
        Job.objects.filter(pk=job.pk).update(status="WAITING", waiting_for="lock")
        Hold.objects.filter(pk=job.pk).update(state="lock")


@pytest.mark.parametrize("task", [locked, tasks.noop.using(max_running=1)])
def test_sweep_frees_the_place_of_a_job_that_is_gone(task):
    first, second = enqueue_many([task.bind(), task.bind()])
    with without_triggers():
        execute("DELETE FROM pgjobs_job WHERE id = %(id)s", {"id": first.pk})
    for _ in range(2):
        work.sweep(execute, work.BEGINNING)
    second.refresh_from_db()
    assert second.status == "READY"


def test_sweep_finds_that_a_job_was_planned_and_not_inserted():
    """As an unlucky ON CONFLICT DO NOTHING does."""
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
    assert statuses() == ["READY", "WAITING"]
    work.sweep(execute, work.BEGINNING)
    work.sweep(execute, work.BEGINNING)
    assert statuses() == ["READY", "READY"]


def test_sweep_finds_what_was_forgotten():
    job = enqueue(locked)
    forget(job)
    with running_worker(poll=600) as loop:
        loop.settling.sweeping.due = 0
        loop.bell.ring()
        wait_for_status(job, "SUCCESSFUL")


def test_drain_does_not_end_before_it_has_looked_for_the_forgotten():
    job = enqueue(locked)
    forget(job)
    assert drain(listen=False).finished == 1
    job.refresh_from_db()
    assert job.status == "SUCCESSFUL"


def test_sweep_goes_on_where_a_batch_ended(monkeypatch):
    monkeypatch.setattr(work, "BATCH", 2)
    for name in "abcde":
        enqueue_many([tasks.noop.using(lock=name).bind() for _ in range(2)])
    begin, seen = work.BEGINNING, []
    for _ in range(3):
        settled, begin = work.sweep(execute, begin)
        seen += [key.name for key in settled]
    assert seen == list("abcde")
    assert begin == work.BEGINNING
