"""Enqueueing: in the caller's transaction, in one statement, heard by workers."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import psycopg
import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import SynchronousOnlyOperation
from django.db import IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from pgjobs import signals, task
from pgjobs.exceptions import InvalidArguments, InvalidTask
from pgjobs.models import Job, Status
from pgjobs.tasks import aenqueue, enqueue, enqueue_many
from tests.actors import execute, fields_of, hours, session
from tests.tasks import add, echo, noop

pytestmark = pytest.mark.django_db


@task
def collect(**anything):
    return anything


class RolledBack(Exception):
    """Ends a transaction that a test does not want to commit."""


@pytest.fixture
def listener(transactional_db):
    with session() as listening:
        listening.listen("pgjobs")
        yield listening


@pytest.fixture
def announced():
    """The jobs that job_enqueued announced."""
    jobs = []

    def receiver(job, **named):
        jobs.append(job)

    signals.job_enqueued.connect(receiver)
    yield jobs
    signals.job_enqueued.disconnect(receiver)


def ids() -> list[int]:
    return list(Job.objects.order_by("pk").values_list("pk", flat=True))


# What a job is when it is new


def test_new_job_has_what_the_task_and_its_options_say():
    job = add.using(
        queue_name="mail", priority=-5, max_attempts=7, max_crashes=1, timeout=60
    ).enqueue(1)
    row = fields_of(job)
    expected = {
        "task": "tests.add",
        "args": [],
        "kwargs": {"a": 1, "b": 1},
        "queue_name": "mail",
        "priority": -5,
        "status": "READY",
        "attempts": 0,
        "failures": 0,
        "max_attempts": 7,
        "crashes": 0,
        "max_crashes": 1,
        "timeout": 60.0,
        "life": 1,
        "lease_token": 0,
        "worker_id": None,
        "cancel_requested_at": None,
        "started_at": None,
        "last_attempted_at": None,
        "finished_at": None,
        "return_value": None,
        "reason": "",
        "run_after": None,
    }
    assert {name: row[name] for name in expected} == expected
    assert abs(row["enqueued_at"] - timezone.now()) < timedelta(minutes=1)


@pytest.mark.parametrize(
    "job_of",
    [
        lambda: noop.enqueue(),
        lambda: echo.enqueue({"a": [1, 2.5, None, "é"]}),
        lambda: noop.using(run_after=hours(1)).enqueue(),
        lambda: noop.using(run_after=datetime(2200, 1, 1, tzinfo=UTC)).enqueue(),
        lambda: enqueue_many([add.bind(1, 2), noop.bind()])[1],
        lambda: Job.objects.enqueue(add, 1, b=3),
    ],
)
def test_returned_job_equals_its_row(job_of):
    job = job_of()
    assert not job.get_deferred_fields()
    returned = {
        field.attname: getattr(job, field.attname)
        for field in Job._meta.concrete_fields
    }
    assert returned == fields_of(job)
    assert not job._state.adding


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": -3, "queue_name": "mail", "max_attempts": 9, "max_crashes": 1},
        {"timeout": 1.5, "run_after": hours(1)},
        {"expires": hours(2)},
        {"expires": hours(2), "run_after": hours(1)},
        {"expires": hours(2), "run_after": datetime(2200, 1, 1, tzinfo=UTC)},
        {"expires": datetime(2200, 1, 2, tzinfo=UTC), "run_after": hours(1)},
        {"lock": "a{value}", "max_running": 1, "rate": "5/second"},
    ],
    ids=str,
)
def test_job_is_the_same_alone_and_among_many(options):
    """Two statements insert them."""
    other = echo.using(**options)
    alone = described(other.enqueue(1))
    among_many = enqueue_many([other.bind(n) for n in (1, 2)])[0]
    assert alone == described(among_many)


def described(job) -> dict:
    """Return what the job is, but for which one and when it was enqueued."""
    fields = fields_of(job)
    del fields["id"], fields["turn"]
    enqueued_at = fields.pop("enqueued_at")
    for name in ("run_after", "expires_at"):
        if fields[name] and fields[name].year < 2200:
            fields[name] -= enqueued_at
    return fields


@pytest.mark.parametrize(
    ("run_after", "status"),
    [
        (None, "READY"),
        (timedelta(), "READY"),
        (timedelta(microseconds=1), "SCHEDULED"),
        (hours(1), "SCHEDULED"),
        (datetime(2020, 1, 1, tzinfo=UTC), "READY"),
        (datetime(2120, 1, 1, tzinfo=UTC), "SCHEDULED"),
        (timedelta(days=36_500), "SCHEDULED"),
        (datetime(9998, 12, 31, tzinfo=UTC), "SCHEDULED"),
        (datetime(1970, 1, 1, tzinfo=UTC), "READY"),
    ],
    ids=repr,
)
def test_what_is_not_due_is_scheduled(run_after, status):
    job = noop.using(run_after=run_after).enqueue()
    assert job.status == status


@pytest.mark.parametrize("past", [timedelta(seconds=-1), timedelta.min])
def test_time_in_the_past_means_now(past):
    job = noop.using(run_after=past, expires=hours(1)).enqueue()
    job.refresh_from_db()
    assert job.status == "READY"
    assert job.run_after == job.enqueued_at
    assert job.expires_at == job.enqueued_at + hours(1)


def test_timedelta_counts_from_now_on_the_database_clock():
    job = noop.using(run_after=hours(1)).enqueue()
    ((wait,),) = execute(
        "SELECT run_after - clock_timestamp() FROM pgjobs_job WHERE id = %(id)s",
        {"id": job.pk},
    )
    assert hours(0.99) < wait <= hours(1)


@pytest.mark.django_db(transaction=True)
def test_delay_counts_from_the_enqueueing_not_from_the_start_of_the_transaction():
    with transaction.atomic():
        ((began,),) = execute("SELECT transaction_timestamp()")
        execute("SELECT pg_sleep(0.05)")
        job = noop.using(run_after=timedelta(milliseconds=1)).enqueue()
    assert job.run_after - began > timedelta(milliseconds=50)
    assert job.enqueued_at - began > timedelta(milliseconds=49)


def test_all_ways_to_enqueue_are_the_same():
    made = [
        add.enqueue(1, b=2),
        enqueue(add, 1, b=2),
        enqueue(add.using(priority=0), 1, 2),
        Job.objects.enqueue(add, 1, b=2),
        *enqueue_many([add.bind(a=1, b=2)]),
    ]
    assert all(job.kwargs == {"a": 1, "b": 2} for job in made)
    assert len({(job.task, job.queue_name, job.status) for job in made}) == 1


def test_arguments_may_have_any_name():
    names = ["self", "task", "using", "function", "func", "loop", "args", "kwargs"]
    given = dict.fromkeys(names, 1)
    assert collect(**given) == given
    assert collect.enqueue(**given).kwargs == given
    assert enqueue(collect, **given).kwargs == given
    assert Job.objects.enqueue(collect, **given).kwargs == given
    assert async_to_sync(partial(aenqueue, collect, **given))().kwargs == given


# Transactions


@pytest.mark.django_db(transaction=True)
def test_job_appears_when_the_transaction_commits(listener):
    with transaction.atomic():
        noop.enqueue()
        assert listener.execute("SELECT count(*) FROM pgjobs_job") == [(0,)]
        assert listener.heard() == []
    assert listener.execute("SELECT count(*) FROM pgjobs_job") == [(1,)]
    assert listener.heard() == [("pgjobs", "default")]


@pytest.mark.django_db(transaction=True)
def test_job_of_a_transaction_that_is_rolled_back_never_was(listener):
    with pytest.raises(RolledBack), transaction.atomic():
        noop.enqueue()
        raise RolledBack
    assert ids() == []
    assert listener.heard() == []


@pytest.mark.django_db(transaction=True)
def test_job_of_a_savepoint_that_is_rolled_back_never_was(listener):
    with transaction.atomic():
        kept = noop.using(queue_name="kept").enqueue()
        with pytest.raises(RolledBack), transaction.atomic():
            noop.using(queue_name="lost").enqueue()
            raise RolledBack
    assert ids() == [kept.pk]
    assert listener.heard() == [("pgjobs", "kept")]


@pytest.mark.django_db(transaction=True)
def test_job_enqueued_on_commit_of_a_lost_savepoint_never_was(listener):
    with transaction.atomic(), pytest.raises(RolledBack), transaction.atomic():
        transaction.on_commit(noop.enqueue)
        raise RolledBack
    assert ids() == []
    assert listener.heard() == []


def test_broken_transaction_is_djangos_own_error():
    with transaction.atomic():
        with pytest.raises(IntegrityError), transaction.atomic(savepoint=False):
            execute("INSERT INTO pgjobs_job (task) VALUES ('')")
        with pytest.raises(TransactionManagementError):
            noop.enqueue()
        transaction.get_connection().needs_rollback = False
        transaction.set_rollback(True)


def test_wrong_arguments_do_not_break_the_transaction():
    with transaction.atomic():
        with pytest.raises(InvalidArguments):
            add.enqueue("1")
        add.enqueue(1)
    assert len(ids()) == 1


def test_read_only_connection_is_a_clear_error():
    with pytest.raises(Exception, match="read-only transaction"), transaction.atomic():
        execute("SET TRANSACTION READ ONLY")
        noop.enqueue()


# Many at once


def test_one_job_is_one_query():
    noop.enqueue()
    with CaptureQueriesContext(
        connection,
    ) as queries:
        add.enqueue(1)
    assert len(queries) == 1


@pytest.mark.django_db(transaction=True)
def test_ten_thousand_jobs_are_one_query_and_one_notification_per_queue(listener):
    queues = [add.using(queue_name=name) for name in ("one", "two", "three")]
    bound = [queues[number % 3].bind(number) for number in range(10_000)]
    with CaptureQueriesContext(connection) as queries:
        jobs = enqueue_many(bound)
    assert len(queries) == 1
    assert sorted(listener.heard()) == [
        ("pgjobs", "one"),
        ("pgjobs", "three"),
        ("pgjobs", "two"),
    ]
    assert [job.kwargs["a"] for job in jobs] == list(range(10_000))
    in_order = Job.objects.order_by("pk").values_list("pk", "kwargs__a")
    assert list(in_order) == [(job.pk, job.kwargs["a"]) for job in jobs]


def test_jobs_of_one_statement_keep_their_order_whatever_they_are():
    later = noop.using(run_after=hours(1))
    bound = [later.bind(), add.bind(1), noop.using(priority=50).bind(), later.bind()]
    jobs = enqueue_many(bound)
    assert [job.task for job in jobs] == [each.task.name for each in bound]
    assert ids() == [job.pk for job in jobs]
    statuses = ["SCHEDULED", "READY", "READY", "SCHEDULED"]
    assert [job.status for job in jobs] == statuses
    for job in jobs:
        assert fields_of(job)["task"] == job.task
        assert fields_of(job)["run_after"] == job.run_after


def test_generator_that_raises_half_way_inserts_nothing():
    def bound():
        yield add.bind(1)
        yield add.bind("2")

    with pytest.raises(InvalidArguments):
        enqueue_many(bound())
    assert ids() == []


def test_no_jobs_are_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert enqueue_many([]) == []
        assert enqueue_many(iter(())) == []


@pytest.mark.parametrize("thing", [add, "tests.add", None, (add, 1)])
def test_only_bound_tasks_can_be_enqueued_together(thing):
    with pytest.raises(InvalidTask, match=r"task\.bind.*at position 1"):
        enqueue_many([noop.bind(), thing])
    assert ids() == []


def test_one_bad_job_stops_all():
    bound = noop.bind()
    bad = replace(bound, made=bound.made._replace(priority=500))  # unchecked
    with pytest.raises(IntegrityError), transaction.atomic():
        enqueue_many([noop.bind(), bad])
    assert ids() == []


# Async


@pytest.mark.django_db(transaction=True)
def test_async_code_can_enqueue():
    async def main():
        return await aenqueue(add, 1), await add.using(priority=9).aenqueue(a=2)

    first, second = async_to_sync(main)()
    assert (first.kwargs, second.priority) == ({"a": 1, "b": 1}, 9)
    assert ids() == [first.pk, second.pk]


def test_async_enqueueing_joins_the_callers_transaction():
    with pytest.raises(RolledBack), transaction.atomic():
        async_to_sync(aenqueue)(noop)
        assert len(ids()) == 1
        raise RolledBack
    assert ids() == []


def test_async_enqueueing_validates():
    with pytest.raises(InvalidArguments):
        asyncio.run(aenqueue(add, "1"))


@pytest.mark.parametrize(
    "act",
    [
        partial(enqueue, noop),
        partial(enqueue_many, [noop.bind()]),
    ],
)
def test_enqueue_in_async_code_says_what_to_await(act):
    check_that_it_says_what_to_await(act)


def check_that_it_says_what_to_await(act: Callable[[], object]) -> None:
    async def view():
        act()

    with pytest.raises(SynchronousOnlyOperation, match=r"`await aenqueue\(\.\.\.\)`"):
        asyncio.run(view())


# Signals


def test_each_new_job_is_announced_once_in_order(announced):
    jobs = [noop.enqueue(), *enqueue_many([add.bind(1), add.bind(2)])]
    assert announced == jobs
    assert [job.status for job in announced] == ["READY"] * 3


def test_broken_receiver_does_not_stop_the_job(announced, caplog):
    def broken(job, **named):
        raise ValueError("receiver is broken")

    signals.job_enqueued.connect(broken)
    try:
        job = noop.enqueue()
    finally:
        signals.job_enqueued.disconnect(broken)
    assert announced == [job]
    assert "receiver is broken" in caplog.text


def test_acts_do_not_announce_new_jobs(announced):
    job = noop.enqueue()
    job.cancel()
    job.retry()
    assert announced == [job]


# Plain SQL


def insert(**columns: str) -> dict:
    """Insert a row of SQL expressions; return it."""
    columns = {"task": "'tests.noop'"} | columns
    ((id,),) = execute(
        f"INSERT INTO pgjobs_job ({', '.join(columns)})"
        f" VALUES ({', '.join(columns.values())}) RETURNING id"
    )
    return Job.objects.filter(pk=id).values().get()


@pytest.mark.django_db(transaction=True)
def test_sql_needs_only_the_task(listener):
    row, usual = insert(), fields_of(noop.enqueue())
    for name in ("id", "turn", "enqueued_at"):
        assert row.pop(name) <= usual.pop(name)
    # SQL leaves it to the setting of the worker.
    assert (row.pop("keep"), usual.pop("keep")) == ("worker", None)
    assert row == usual
    assert listener.heard() == [("pgjobs", "default"), ("pgjobs", "default")]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "run_after, status",
    [
        ("now() + interval '1 minute'", "SCHEDULED"),
        ("clock_timestamp() - interval '1 second'", "READY"),
        ("NULL", "READY"),
    ],
)
def test_job_that_is_inserted_for_later_is_scheduled(run_after, status):
    assert insert(run_after=run_after)["status"] == status


@pytest.mark.django_db
def test_job_that_is_created_for_later_knows_that_it_is_scheduled():
    tomorrow = timezone.now() + timedelta(days=1)
    assert Job.objects.create(task="tests.noop", run_after=tomorrow).status == (
        "SCHEDULED"
    )


@pytest.mark.django_db(transaction=True)
def test_sql_that_inserts_many_rows_notifies_once_per_queue(listener):
    execute(
        "INSERT INTO pgjobs_job (task, queue_name)"
        " SELECT 'tests.noop', 'q' || each % 2 FROM generate_series(1, 1000) AS each"
    )
    assert sorted(listener.heard()) == [("pgjobs", "q0"), ("pgjobs", "q1")]


@pytest.mark.django_db(transaction=True)
def test_notification_fits_whatever_the_queue_is_called(listener):
    name = "🙂" * 200
    noop.using(queue_name=name).enqueue()
    assert listener.heard() == [("pgjobs", name)]


RUNNING = {"status": "'RUNNING'", "worker_id": "1", "attempts": "1"}
ILLEGAL = [
    ("worker_id", {"status": "'RUNNING'", "attempts": "1"}),
    ("worker_id", {"worker_id": "1"}),
    ("finished_at", {"status": "'FAILED'"}),
    ("finished_at", {"status": "'SUCCESSFUL'"}),
    ("finished_at", {"status": "'CANCELLED'"}),
    ("finished_at", {"finished_at": "now()"}),
    ("finished_at", {**RUNNING, "finished_at": "now()"}),
    ("there is no status", {"status": "'ready'"}),
    ("there is no status", {"status": "'LOST'"}),
    ("run_after", {"status": "'SCHEDULED'"}),
    ("priority", {"priority": "101"}),
    ("priority", {"priority": "-101"}),
    ("only rise", {"attempts": "-1"}),
    ("only rise", {"failures": "-1"}),
    ("more failures", {"failures": "1"}),
    ("only rise", {"crashes": "-1"}),
    ("more failures", {"crashes": "1"}),
    ("max_", {"max_attempts": "0"}),
    ("max_", {"max_crashes": "0"}),
    ("only rise", {"life": "0"}),
    ("timeout", {"timeout": "0"}),
    ("timeout", {"timeout": "-1"}),
    ("timeout", {"timeout": "'NaN'"}),
    ("timeout", {"timeout": "'Infinity'"}),
    ("only rise", {"lease_token": "-1"}),
    ("kwargs must", {"kwargs": "'[]'"}),
    ("kwargs must", {"kwargs": "'null'"}),
    ("kwargs must", {"kwargs": "'\"s\"'"}),
    ("kwargs must", {"kwargs": "'1'"}),
    ("args must", {"args": "'{}'"}),
    ("task must", {"task": "''"}),
    ("queue_name must", {"queue_name": "''"}),
    ("queue_name must", {"queue_name": "'a,b'"}),
    ("queue_name must", {"queue_name": "E'a\\n'"}),
    ("queue_name must", {"queue_name": "E'\\na'"}),
    ("queue_name must", {"queue_name": "E'\\x7f'"}),
    ("from 1970", {"run_after": "'infinity'"}),
    ("from 1970", {"run_after": "'-infinity'"}),
    ("from 1970", {"run_after": "'0044-03-15 BC'"}),
    ("from 1970", {"run_after": "'1969-12-31 UTC'"}),
    ("from 1970", {"run_after": "'10000-01-01'"}),
    ("from 1970", {"enqueued_at": "'infinity'"}),
    ("from 1970", {"enqueued_at": "'0044-03-15 BC'"}),
    ("from 1970", {"expires_at": "'infinity'"}),
    ("from 1970", {"cancel_requested_at": "'infinity'"}),
    ("from 1970", {"started_at": "'infinity'"}),
    ("from 1970", {"last_attempted_at": "'0044-03-15 BC'"}),
    ("from 1970", {"status": "'FAILED'", "finished_at": "'10000-01-01'"}),
    ("id must", {"id": "0"}),
    ("id must", {"id": "-1"}),
    ("process_units must", {"process_units": "0"}),
    ("unique_key must", {"unique_key": "''", "unique_for": "'unfinished'"}),
    ("belong together", {"unique_key": "'k'"}),
    ("belong together", {"unique_for": "'unfinished'"}),
    ("unique_for must", {"unique_key": "'k'", "unique_for": "'ever'"}),
    ("needs unique_for", {"unique_until": "now()"}),
]


def update(job: Job, **columns: str) -> None:
    changes = ", ".join(f"{name} = {value}" for name, value in columns.items())
    execute(f"UPDATE pgjobs_job SET {changes} WHERE id = {job.pk}")


@pytest.mark.parametrize("is_new", [True, False], ids=["INSERT", "UPDATE"])
@pytest.mark.parametrize(("fault", "columns"), ILLEGAL)
def test_illegal_row_is_refused_and_the_error_says_why(fault, columns, is_new):
    job = noop.enqueue()
    with pytest.raises(IntegrityError, match=fault) as caught, transaction.atomic():
        if is_new:
            insert(**columns)
        else:
            update(job, **columns)
    assert isinstance(caught.value.__cause__, psycopg.errors.CheckViolation)
    assert caught.value.__cause__.diag.constraint_name == "pgjobs_is_job"


@pytest.mark.parametrize(
    "name", ["task", "args", "kwargs", "queue_name", "enqueued_at"]
)
def test_null_is_refused_where_it_makes_no_sense(name):
    with pytest.raises(IntegrityError, match="null value"), transaction.atomic():
        insert(**{name: "NULL"})


@pytest.mark.parametrize(
    "columns",
    [
        {"status": "'WAITING'", "waiting_for": "'lock'", "keys": """'{"lock": "l"}'"""},
        {"status": "'SCHEDULED'", "run_after": "now()"},
        {"status": "'FAILED'", "finished_at": "now()"},
        {"run_after": "now() + interval '1 hour'"},
        {"queue_name": "'a b;DROP TABLE é'"},
    ],
)
def test_constraints_let_legal_rows_pass(columns):
    insert(**columns)


def test_no_row_is_inserted_as_running():
    """It would run nowhere and still hold a lock."""
    with pytest.raises(IntegrityError, match="none is inserted as RUNNING"):
        insert(**RUNNING)


def test_update_to_an_illegal_row_is_refused():
    job = noop.enqueue()
    for wrong in ({"status": "FAILED"}, {"worker_id": 5}, {"priority": 101}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Job.objects.filter(pk=job.pk).update(**wrong)
    assert fields_of(job)["status"] == Status.READY


# Many jobs of one kind


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 7},
        {"lock": "one"},
        {"lock": "own-{value}", "lock_mode": "mutex"},
        {"max_running": 1, "limit_key": "limit-{value}", "rate": "5/minute"},
        {"run_after": timedelta(hours=1), "lock": "own-{value}"},
        {"expires": timedelta(hours=1)},
    ],
    ids=lambda options: "-".join(options),
)
def test_jobs_that_differ_in_arguments_and_keys_alone_are_inserted_by_one_array(
    django_assert_num_queries, options
):
    check_that_one_array_inserts_them(django_assert_num_queries, options)


def check_that_one_array_inserts_them(django_assert_num_queries, options) -> None:
    bound = [echo.using(**options).bind({"é": [number]}) for number in range(20)]
    with django_assert_num_queries(1) as queries:
        jobs = enqueue_many(bound)
    assert "jsonb_array_elements" in queries[0]["sql"]
    stored = Job.objects.in_bulk([job.pk for job in jobs])
    assert [job.kwargs for job in jobs] == [{"value": {"é": [n]}} for n in range(20)]
    assert [job.pk for job in jobs] == sorted(stored)
    for job in jobs:
        for field in Job._meta.concrete_fields:
            name = field.attname
            assert getattr(job, name) == getattr(stored[job.pk], name), name


@pytest.mark.parametrize(
    "other",
    [
        add.bind(1),
        noop.using(priority=1).bind(),
        noop.using(lock="door").bind(),
        noop.using(run_after=timedelta(hours=1)).bind(),
        noop.using(expires=timedelta(hours=1)).bind(),
    ],
)
def test_jobs_of_several_kinds_keep_what_is_their_own(other):
    for bound in ([noop.bind(), other], [other, noop.bind()], [other] * 2):
        jobs = enqueue_many(bound)
        assert [job.task for job in jobs] == [each.new_job.task for each in bound]
        for job, each in zip(jobs, bound, strict=True):
            stored = Job.objects.get(pk=job.pk)
            assert stored.priority == job.priority == each.new_job.priority
            assert stored.kwargs == job.kwargs
            assert stored.status == job.status
            assert (stored.run_after, stored.expires_at) == (
                job.run_after,
                job.expires_at,
            )


def test_one_array_of_arguments_does_not_become_too_large(monkeypatch):
    monkeypatch.setattr("pgjobs.queue.new_job.LARGEST_ARRAY", 50)
    jobs = enqueue_many([echo.bind("x" * 40) for _ in range(3)])
    assert [job.kwargs for job in Job.objects.order_by("pk")] == [
        job.kwargs for job in jobs
    ]
