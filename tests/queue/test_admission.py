"""Admission: one at a time, nothing half done, and no more work than what happened."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from math import inf
from time import monotonic

import psycopg
import pytest
from django.db import connection

from pgjobs import chain, enqueue, enqueue_many, group
from pgjobs.models import Job, Note, Predecessor, Queue, Rate
from pgjobs.queue import admitting, recording
from pgjobs.queue.claiming import ClaimedJob
from pgjobs.worker.connections.connection import OwnConnection, Watchdog, plan_once
from tests import harness
from tests.actors import (
    Hand,
    admit,
    execute,
    hours,
    pass_time,
    session,
    statuses,
    stored_statuses,
)
from tests.processes import (
    drain,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.tasks import noop

pytestmark = [shared_queue, pytest.mark.usefixtures("unhurried")]

MANY = 5_000
HOLD_ROWS = "SELECT FROM pgjobs_job WHERE id = ANY (%(ids)s) FOR UPDATE"
CROWDED = """
    SELECT keys ->> 'lock' FROM pgjobs_job
    WHERE status IN ('READY', 'RUNNING') AND keys ? 'lock'
    GROUP BY 1 HAVING count(*) > 1
"""
PLACES = """
    SELECT count(*) FROM pgjobs_job
    WHERE status IN ('READY', 'RUNNING') AND keys ? 'limit_key'
"""
SLEEPS = """
    SELECT 1 FROM pg_stat_activity WHERE pid = %(pid)s AND wait_event = 'PgSleep'
"""
UNFINISHED = "SELECT 1 FROM pgjobs_job WHERE finished_at IS NULL LIMIT 1"
SCANS = """
    SELECT coalesce(sum(seq_tup_read), 0)::bigint,
        coalesce(sum(idx_tup_fetch), 0)::bigint
    FROM pg_stat_xact_user_tables WHERE relname = 'pgjobs_job'
"""


@pytest.fixture(autouse=True)
def served():
    """Let all queues have a worker that lives: without one no job is admitted."""
    return Hand("living", excluded="slow")


def insert_many(number: int, keys: dict, **columns) -> None:
    """Insert jobs as psql would; %n in the keys is the number of each."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", %({name})s" for name in columns)
    execute(
        f"INSERT INTO pgjobs_job (task, keys{names})"
        f" SELECT 'tests.noop', replace(%(keys)s, '%%n', n::text)::jsonb{values}"
        " FROM generate_series(1, %(number)s) AS n",
        {"keys": json.dumps(keys), "number": number, **columns},
    )


def counts() -> dict[str, int]:
    """Return how many jobs have each status, as stored."""
    return dict(execute("SELECT status, count(*) FROM pgjobs_job GROUP BY 1"))


def admit_as_long_as_it_pays(most: int = 100) -> None:
    """Admit as a worker does without a pause; a held row must not keep it busy."""
    for _ in range(most):
        if not admitting.admit(execute).has_more:
            return
    raise AssertionError("it never pauses")


def admit_at_once() -> int:
    """Admit as long as it is said that there is more; return how often."""
    position, number = admitting.BEGINNING, 0
    while True:
        admission = admitting.admit(execute, position)
        assert admission.admitted is not None
        number += 1
        position = admission.position
        if not admission.has_more:
            # No other session holds a row: nothing is left for later.
            assert not admission.is_blocked
            return number


# One at a time


def test_second_admission_at_the_same_time_does_nothing_and_does_not_wait():
    enqueue(noop.using(lock="door"))
    with session() as other:
        other.begin()
        assert admitting.admit(other.execute).admitted == 1
        enqueue(noop.using(lock="gate"))
        admission = admitting.admit(
            execute, admitting.Position("a", "b", 5), sweeps=True
        )
        assert admission.admitted is None
        assert (admission.ended, admission.has_more) == ([], False)
        assert admission.position == admitting.Position("a", "b", 5)
        assert stored_statuses() == ["WAITING", "WAITING"]
        other.rollback()
    assert admitting.admit(execute).admitted == 2


def test_admission_with_an_old_snapshot_does_nothing():
    enqueue(noop.using(lock="door"))
    with session() as old:
        for level in ("REPEATABLE READ", "SERIALIZABLE"):
            old.execute(f"BEGIN ISOLATION LEVEL {level}")
            assert admitting.admit(old.execute).admitted is None
            # Nor does it keep others from it.
            assert admitting.admit(execute).admitted is not None
            old.commit()
    assert stored_statuses() == ["READY"]


def test_admissions_of_several_sessions_never_overbook():
    locks = [f"lock-{number}" for number in range(5)]
    chance = random.Random(7)
    enqueue_many(
        [
            noop.using(
                lock=chance.choice(locks),
                lock_mode=chance.choice(["ordered", "mutex"]),
                max_running=3,
                rate="1000/second",
                rate_key="rate",
            ).bind()
            for _ in range(100)
        ]
    )

    def act(number: int) -> int:
        chance, done = random.Random(number), 0
        with session() as own:
            hand = Hand(f"hand-{number}", execute=own.execute)
            while own.execute(UNFINISHED):
                admitting.admit(own.execute, sweeps=chance.random() < 0.2)
                assert own.execute(CROWDED) == []
                ((places,),) = own.execute(PLACES)
                assert places <= 3
                for job in hand.record_and_claim(limit=2, is_idle=True).jobs:
                    if chance.random() < 0.2:
                        hand.set_back(job, "RELEASE")
                    else:
                        done += hand.succeed(job)
        connection.close()
        return done

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(act, range(4))) == 100
    assert counts() == {"SUCCESSFUL": 100}


def test_rate_is_kept_by_admissions_one_after_the_other():
    with session() as one, session() as two:
        for _ in range(3):
            for each in (one, two):
                enqueue(noop.using(rate="3/hour"))
                each.begin()
                admitting.admit(each.execute)
                each.commit()
    assert stored_statuses() == ["READY"] * 3 + ["WAITING"] * 3


# Rows that are held


@pytest.mark.parametrize(
    "options",
    [
        {"lock": "door"},
        {"lock": "door", "lock_mode": "mutex"},
        {"max_running": 1},
        {"rate": "1/hour"},
    ],
)
def test_arrived_job_whose_row_is_held_is_admitted_once_it_is_released(options):
    job = enqueue(noop.using(**options))
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [job.pk]})
        admission = admitting.admit(execute)
        assert (admission.admitted, admission.is_blocked) == (0, True)
        admit_as_long_as_it_pays()
        holder.commit()
    assert admitting.admit(execute).admitted == 1
    admission = admitting.admit(execute)
    assert (admission.has_more, admission.is_blocked) == (False, False)


def test_end_of_a_job_whose_row_is_held_is_seen_once_it_is_released():
    first, _ = enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    admit()
    first.cancel()
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [first.pk]})
        admission = admitting.admit(execute)
        assert (admission.admitted, admission.is_blocked) == (0, True)
        admit_as_long_as_it_pays()
        holder.commit()
    assert admitting.admit(execute).admitted == 1


@pytest.mark.parametrize("ends", [False, True])
def test_follower_whose_row_is_held_is_admitted_once_it_is_released(ends):
    first, second = enqueue(chain(noop.bind(), noop.bind()))
    admit()
    first.fail() if ends else first.succeed()
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [second.pk]})
        for _ in range(2):
            admission = admitting.admit(execute)
            assert (admission.admitted, admission.is_blocked) == (0, True)
        admit_as_long_as_it_pays()
        holder.commit()
    admission = admitting.admit(execute)
    assert admission.ended == ([second.pk] if ends else [])
    assert stored_statuses()[1] == ("CANCELLED" if ends else "READY")


def test_predecessor_whose_row_is_held_while_it_is_linked_is_not_forgotten():
    first = enqueue(noop)
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [first.pk]})
        second = enqueue(noop.using(after=first))
        admit_as_long_as_it_pays()
        assert admitting.admit(execute).is_blocked
        holder.commit()
    first.succeed()
    assert admitting.admit(execute).admitted == 1
    second.refresh_from_db()
    assert second.status == "READY"


@pytest.mark.parametrize(
    "options", [{"lock": "door-{value}"}, {"max_running": 1_000}, {"after": None}]
)
def test_many_held_rows_keep_no_later_jobs_back(monkeypatch, options):
    monkeypatch.setattr(admitting, "MOST_ADMITTED", 5)
    if "after" in options:
        ended = enqueue(noop)
        ended.succeed()
        options = {"after": ended}
    task = noop.using(**{key: each for key, each in options.items() if key != "lock"})
    if "lock" in options:
        tasks = [noop.using(lock=f"door-{number}") for number in range(30)]
    else:
        tasks = [task] * 30
    jobs = enqueue_many([each.bind() for each in tasks])
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [job.pk for job in jobs[:20]]})
        for _ in range(20):
            admitting.admit(execute)
        ready = Job.objects.ready().filter(pk__in=[job.pk for job in jobs[20:]])
        assert ready.count() == 10
        # It is no reason to try without a pause.
        assert not admitting.admit(execute).has_more
        assert Note.objects.count() <= 100
        holder.commit()
    while (admission := admitting.admit(execute)).has_more or admission.is_blocked:
        pass
    assert Job.objects.ready().count() == 30


def test_worker_tries_again_until_a_held_row_is_released():
    job = enqueue(noop.using(lock="door"))
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [job.pk]})
        with running_worker(poll=600) as loop:
            loop.admitting.sweeping.due = float("inf")
            wait_for(Note.objects.exists, "the worker has met the row")
            holder.commit()
            wait_for_status(job, "SUCCESSFUL")


# Nothing half done


def test_what_a_killed_session_began_is_done_by_the_next_one():
    first, second = enqueue(chain(noop.bind(), noop.using(lock="door").bind()))
    admit()
    enqueue(noop.using(rate="1/hour"))
    first.succeed()
    enqueue(noop.using(lock="door")).delete()
    before = Job.objects.order_by("pk").values(), Note.objects.values()
    before = [list(rows) for rows in before]
    with session() as killed:
        ((pid,),) = killed.execute("SELECT pg_backend_pid()")
        killed.begin()
        assert admitting.admit(killed.execute).admitted == 2
        execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": pid})
        with pytest.raises(psycopg.OperationalError):
            killed.execute("SELECT 1")
    gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %(pid)s"
    wait_for(lambda: not execute(gone, {"pid": pid}), "it is gone")
    after = Job.objects.order_by("pk").values(), Note.objects.values()
    assert [list(rows) for rows in after] == before
    assert not Rate.objects.exists()
    assert Predecessor.objects.filter(is_open=True).count() == 1
    assert admitting.admit(execute).admitted == 2
    second.refresh_from_db()
    assert second.status == "READY"


@pytest.fixture
def own():
    """Give a connection such as the loop of a worker has."""
    watchdog = Watchdog()
    own = OwnConnection("default", "test", "own", watchdog, 30, prepare=plan_once)
    yield own
    own.close()
    watchdog.stop()


def record_admit_and_claim(together, hand: Hand, ended: ClaimedJob):
    """Do in one round trip what a worker does when a job with keys has ended."""
    return admitting.admit_and_claim(
        together,
        hand.id,
        admitting.BEGINNING,
        False,
        successes=[recording.Success(ended.id, ended.lease_token, None)],
        limit=1,
        is_idle=True,
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -7,
        0.02,
        inf,
        "",
        'it\'s \\ "ü"',
        "{1,2}",
        [],
        ["a'b", None, "c,d", '"\\"'],
    ],
)
def test_value_reaches_the_database_unchanged_in_a_shared_message(own, value):
    kinds = {bool: "bool", int: "bigint", float: "float8", list: "text[]"}
    query = f"SELECT %(value)s::{kinds.get(type(value), 'text')}"
    assert own.together([(query, {"value": value})]) == [[(value,)]]


def test_text_that_postgresql_cannot_store_is_refused_in_a_shared_message(own):
    with pytest.raises(psycopg.DataError):
        own.together([("SELECT %(value)s::text", {"value": "a\0b"})])


def test_end_that_an_admission_records_needs_no_look_at_its_row(own):
    enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    brought, admission = record_admit_and_claim(own.together, hand, ended)
    assert brought.recorded == {ended.lease_token}
    assert admission.admitted == len(brought.jobs) == 1
    assert stored_statuses() == ["SUCCESSFUL", "RUNNING"]
    assert list(Job.objects.values_list("line", flat=True)) == [None, None]


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_end_that_is_recorded_without_an_admission_is_left_to_the_next(own, level):
    enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    with session() as other:
        other.begin()
        if level == "READ COMMITTED":
            assert admitting.admit(other.execute).admitted == 0
        own.execute(f"SET default_transaction_isolation = '{level}'")
        brought, admission = record_admit_and_claim(own.together, hand, ended)
        assert brought.recorded == {ended.lease_token}
        assert (admission.admitted, brought.jobs) == (None, [])
        assert stored_statuses() == ["SUCCESSFUL", "WAITING"]
        other.rollback()
    assert admitting.admit(execute).admitted == 1


def test_end_of_a_job_that_is_not_the_workers_touches_no_key(own):
    enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    for stale in (
        ended._replace(lease_token=ended.lease_token + 1000),
        ended._replace(id=ended.id + 1),
    ):
        brought, admission = record_admit_and_claim(own.together, hand, stale)
        assert (brought.recorded, brought.jobs) == (set(), [])
        assert admission.admitted == 0
    assert stored_statuses() == ["RUNNING", "WAITING"]


def test_end_of_a_predecessor_and_of_a_batch_are_seen_as_they_are_recorded(own):
    batch = enqueue(chain(noop.bind(), group([noop.bind()], then=noop.bind())))
    assert batch
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    for _ in range(2):
        brought, admission = record_admit_and_claim(own.together, hand, ended)
        assert admission.admitted == 1
        (ended,) = brought.jobs
    assert stored_statuses() == ["SUCCESSFUL", "SUCCESSFUL", "RUNNING"]


def test_admission_waits_for_no_row_that_it_has_to_record(own):
    """While it waited, no other worker could admit."""
    enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    with session() as holder:
        holder.begin()
        holder.execute(HOLD_ROWS, {"ids": [ended.id]})
        own.execute("SET lock_timeout = 0")  # what the function says counts
        with pytest.raises(psycopg.errors.LockNotAvailable):
            record_admit_and_claim(own.together, hand, ended)
        assert admitting.admit(execute).admitted == 0
        holder.rollback()
    assert record_admit_and_claim(own.together, hand, ended)[1].admitted == 1


def test_round_trip_that_is_cut_off_records_admits_and_claims_nothing(own):
    """Its statements are one transaction."""
    enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    hand = Hand(execute=own.execute)
    ended = hand.claim_one()
    ((pid,),) = own.execute("SELECT pg_backend_pid()")

    def and_sleep(statements):
        return own.together([*statements, ("SELECT pg_sleep(60)", {})])[:-1]

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(record_admit_and_claim, and_sleep, hand, ended)
        sleeps = SLEEPS, {"pid": pid}
        wait_for(lambda: execute(*sleeps), "it has recorded, admitted and claimed")
        execute("SELECT pg_terminate_backend(%(pid)s)", {"pid": pid})
        with pytest.raises(psycopg.OperationalError):
            future.result(timeout=60)
    assert stored_statuses() == ["RUNNING", "WAITING"]
    brought, admission = record_admit_and_claim(own.together, hand, ended)
    assert brought.recorded == {ended.lease_token}
    assert admission.admitted == len(brought.jobs) == 1
    assert stored_statuses() == ["SUCCESSFUL", "RUNNING"]


# Many at once

KEYS = {
    "lock": {"lock": "door"},
    "mutex": {"lock": "door", "is_ordered": False},
    "limit": {"limit_key": "k", "max_running": 3},
    "rate": {"rate_key": "r", "rate_interval": 3600, "rate_burst": 2},
}
PLACES_OF = {"lock": 1, "mutex": 1, "limit": 3, "rate": 2}


def cancel() -> None:
    assert Job.objects.filter(priority=0).cancel().changed == MANY


def fail() -> None:
    assert Job.objects.filter(priority=0).fail().changed == MANY


def succeed() -> None:
    assert Job.objects.filter(priority=0).succeed().changed == MANY


def delete() -> None:
    execute("DELETE FROM pgjobs_job WHERE priority = 0")


def expire() -> None:
    execute("UPDATE pgjobs_job SET expires_at = now() WHERE priority = 0")
    execute(
        "UPDATE pgjobs_job SET status = 'CANCELLED', finished_at = now(),"
        " waiting_for = NULL WHERE expires_at <= now()"
    )


ENDS = [cancel, fail, succeed, delete, expire]


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KEYS)
def test_end_of_many_jobs_of_one_key_admits_the_others(kind, end):
    insert_many(MANY, KEYS[kind])
    insert_many(5, KEYS[kind], priority=-1)
    admit_at_once()
    places = PLACES_OF[kind]
    assert counts() == {"READY": places, "WAITING": MANY + 5 - places}
    end()
    pass_time(7_200)
    admit_at_once()
    left = dict(
        execute("SELECT status, count(*) FROM pgjobs_job WHERE priority < 0 GROUP BY 1")
    )
    assert left == {"READY": places, "WAITING": 5 - places}
    assert not Note.objects.exists()


@pytest.mark.parametrize("end", ENDS)
def test_end_of_the_predecessor_of_many_jobs_admits_all(end):
    first = enqueue(noop.using(priority=1))
    insert_many(MANY, {"after": [first.pk]})
    admit_at_once()
    assert counts() == {"READY": 1, "WAITING": MANY}
    Job.objects.update(priority=1)
    Job.objects.filter(pk=first.pk).update(priority=0)
    {
        cancel: first.cancel,
        fail: first.fail,
        succeed: first.succeed,
    }.get(end, end)()
    admit_at_once()
    outcome = "READY" if end is succeed else "CANCELLED"
    assert Job.objects.filter(status=outcome, priority=1).count() == MANY


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_end_of_many_predecessors_of_a_job_admits_it(end):
    insert_many(MANY, {"lock": "door-%n"})
    last = enqueue(noop.using(after=list(Job.objects.all()), priority=1))
    admit_at_once()
    end()
    admit_at_once()
    last.refresh_from_db()
    assert last.status == ("READY" if end is succeed else "CANCELLED")


@pytest.mark.parametrize("end", ENDS)
def test_end_of_many_jobs_of_a_batch_admits_those_after_it(end):
    batch = enqueue(group([noop.bind()] * MANY))
    last = enqueue(noop.using(after=batch, priority=1))
    admit_at_once()
    assert counts() == {"READY": MANY, "WAITING": 1}
    end()
    admit_at_once()
    last.refresh_from_db()
    assert last.status == ("READY" if end is succeed else "CANCELLED")


def test_long_chain_that_is_cancelled_ends_without_a_recursion():
    number = 1_000
    jobs = enqueue(chain(*[noop.bind() for _ in range(number)]))
    admit_at_once()
    jobs[0].cancel()
    admit_at_once()
    assert counts() == {"CANCELLED": number}


# Queues that are paused or unserved


@pytest.mark.parametrize("keys", [KEYS["mutex"], KEYS["limit"], KEYS["rate"]])
@pytest.mark.parametrize("is_paused", [True, False])
def test_many_jobs_of_a_queue_that_no_worker_serves_take_no_room(keys, is_paused):
    if is_paused:
        Queue.objects.create(name="paused").pause()
    insert_many(MANY, keys, queue_name="paused" if is_paused else "slow", priority=9)
    insert_many(5, keys)
    admit_at_once()
    ready = Job.objects.ready()
    assert set(ready.values_list("queue_name", flat=True)) == {"default"}


# Long lines


def reads(act) -> int:
    """Return how many rows of jobs an act reads; none of them one after the other."""
    with session() as own:
        own.begin()
        plan_once_of(own)
        ((scanned, before),) = own.execute(SCANS)
        act(own.execute)
        ((scanned_after, after),) = own.execute(SCANS)
        own.commit()
    assert scanned_after == scanned
    return after - before


def plan_once_of(own) -> None:
    own.execute("SET LOCAL plan_cache_mode = force_generic_plan")


@pytest.mark.parametrize("kind", KEYS)
def test_admission_reads_no_more_rows_of_a_long_line_than_of_a_short_one(kind):
    read = []
    for number in (1_000, 3_000, 10_000):
        execute("TRUNCATE pgjobs_job, pgjobs_rate CASCADE")
        insert_many(number, KEYS[kind])
        admit_at_once()
        execute("ANALYZE pgjobs_job")
        Job.objects.filter(pk=Job.objects.ready().earliest("pk").pk).cancel()
        pass_time(3_601)
        read.append(reads(admitting.admit))
        admit_at_once()
        assert counts()["READY"] >= PLACES_OF[kind]
    assert max(read) <= read[0] + 20, read


def test_admission_with_nothing_to_do_reads_no_row_of_those_that_wait():
    for keys in KEYS.values():
        insert_many(1_000, keys)
    insert_many(1_000, {"lock": "slow"}, queue_name="slow")
    first = enqueue(noop.using(queue_name="slow"))
    insert_many(1_000, {"after": [first.pk]})
    admit_at_once()
    assert reads(admitting.admit) <= 20


# Inserting transactions


@pytest.mark.parametrize("keys", KEYS.values())
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_job_of_any_isolation_level_is_admitted(level, keys):
    with session() as strict:
        strict.execute(f"BEGIN ISOLATION LEVEL {level}")
        strict.execute("SELECT count(*) FROM pgjobs_job")
        insert_many(1, keys)
        admit()
        strict.execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)",
            {"keys": json.dumps(keys)},
        )
        strict.commit()
    alone = keys in (KEYS["lock"], KEYS["mutex"])
    assert statuses() == ["READY", "WAITING" if alone else "READY"]
    Job.objects.earliest("pk").cancel()
    assert statuses() == ["CANCELLED", "READY"]


def test_end_that_any_isolation_level_brings_is_seen():
    first, _ = enqueue_many([noop.using(lock="door").bind() for _ in range(2)])
    admit()
    with session() as strict:
        strict.execute("BEGIN ISOLATION LEVEL SERIALIZABLE")
        strict.execute(
            "UPDATE pgjobs_job SET status = 'CANCELLED', finished_at = now()"
            " WHERE id = %(id)s",
            {"id": first.pk},
        )
        strict.commit()
    assert admitting.admit(execute).admitted == 1


@pytest.fixture
def clerk():
    """A session of a role that may insert jobs, and nothing else."""
    with harness.role("admission_clerk", "LOGIN PASSWORD 'clerk'") as name:
        execute(f"GRANT INSERT ON pgjobs_job TO {name}")
        with session(user=name, password="clerk") as made:
            yield made


@pytest.mark.parametrize("keys", [*KEYS.values(), {"after": [1]}])
def test_job_of_a_role_that_may_only_insert_is_admitted_by_a_worker(clerk, keys):
    if "after" in keys:
        first = enqueue(noop)
        keys = {"after": [first.pk]}
    with running_worker(poll=600) as loop:
        loop.admitting.sweeping.due = float("inf")
        clerk.execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)",
            {"keys": json.dumps(keys)},
        )
        wait_for(
            lambda: (
                Job.objects.exists()
                and not Job.objects.filter(finished_at=None).exists()
            )
        )
    assert set(stored_statuses()) == {"SUCCESSFUL"}


@pytest.mark.parametrize("keys", KEYS.values())
def test_row_that_says_nothing_but_its_keys_waits_and_is_admitted(keys):
    insert_many(1, keys)
    job = Job.objects.get()
    assert (job.status, job.line) == ("WAITING", "arrived")
    assert job.waiting_for in KEYS
    assert admitting.admit(execute).admitted == 1
    job.refresh_from_db()
    assert (job.status, job.line, job.waiting_for) == ("READY", None, None)


def test_scheduled_job_is_admitted_when_it_is_due():
    insert_many(1, KEYS["mutex"], run_after="2100-01-01T00:00Z")
    insert_many(1, KEYS["mutex"])
    assert statuses() == ["SCHEDULED", "READY"]
    Job.objects.scheduled().run_now()
    assert statuses() == ["WAITING", "READY"]
    Job.objects.ready().cancel()
    assert statuses() == ["READY", "CANCELLED"]


def test_job_that_is_put_off_makes_room_until_it_is_due():
    hand = Hand()
    enqueue_many([noop.using(lock="door", lock_mode="mutex").bind() for _ in range(2)])
    hand.set_back(hand.claim_one(), "SNOOZE", delay=hours(1).total_seconds())
    assert admitting.admit(execute).admitted == 1
    assert stored_statuses() == ["SCHEDULED", "READY"]


@pytest.fixture
def broken_admission():
    """Let each admission raise an error that no database outage explains."""
    ((source,),) = execute(
        "SELECT pg_get_functiondef(oid) FROM pg_proc"
        " WHERE proname = 'pgjobs_meet_locks'"
    )
    execute(
        "CREATE OR REPLACE FUNCTION pgjobs_meet_locks(ids bigint[], obstacles jsonb)"
        " RETURNS jsonb LANGUAGE plpgsql AS"
        " $$ BEGIN RETURN 1 / 0; END $$"
    )
    yield source
    execute(source)


def test_plain_jobs_run_while_every_admission_fails(broken_admission, caplog):
    with running_worker(poll=600) as loop:
        locked, first = enqueue(noop.using(lock="door")), enqueue(noop)
        wait_for_status(first, "SUCCESSFUL")
        wait_for(
            lambda: loop.admitting.backoff.is_waiting(monotonic()),
            "an admission has failed",
        )
        wait_for_status(enqueue(noop), "SUCCESSFUL")
        locked.refresh_from_db()
        assert locked.status == "WAITING"
        assert loop.faults.since is None
    assert "division by zero" in caplog.text


def test_drain_ends_while_every_admission_fails_and_says_what_is_left(broken_admission):
    enqueue(noop.using(lock="door"))
    enqueue(noop)
    drain()
    assert stored_statuses() == ["WAITING", "SUCCESSFUL"]


def test_worker_admits_again_once_admissions_do_not_fail_any_more(broken_admission):
    with running_worker(poll=600) as loop:
        locked = enqueue(noop.using(lock="door"))
        wait_for(
            lambda: loop.admitting.backoff.is_waiting(monotonic()),
            "an admission has failed",
        )
        execute(broken_admission)
        wait_for_status(locked, "SUCCESSFUL")
