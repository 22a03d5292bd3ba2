"""Unique jobs: one job for each key, and no unexpected error."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import date, timedelta
from uuid import UUID

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from pgjobs import aenqueue, enqueue, enqueue_many, signals, task
from pgjobs.conf import FINISHED
from pgjobs.exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask
from pgjobs.models import Job
from pgjobs.models.job_choices import QUEUED
from pgjobs.queue import upkeep
from tests.actors import (
    SESSION_WAITS,
    WAITING_SESSIONS,
    Hand,
    execute,
    fields_of,
    hours,
    in_thread,
    overlapping,
    running_job,
    session,
)
from tests.processes import wait_for
from tests.tasks import add, echo, noop

pytestmark = pytest.mark.django_db

KEPT = echo.using(unique_key="key")
WAITS = echo.using(unique_key="key", unique_for="waiting")
HOURLY = echo.using(unique_key="key", unique_for=hours(1))
EVERY_WAY = [KEPT, WAITS, HOURLY]
WAYS = ["unfinished", "waiting", "period"]


@task
def report(client_id: int, day: date, *, uuid: UUID | None = None): ...


@task
def gather(*parts: int, **named: int): ...


class RolledBack(Exception):
    """Ends a transaction that a test does not want to commit."""


def ids() -> list[int]:
    return list(Job.objects.order_by("pk").values_list("pk", flat=True))


def values() -> list:
    """Return the arguments of the jobs of `echo` that there are."""
    return [job.kwargs["value"] for job in Job.objects.order_by("pk")]


def let_period_pass() -> None:
    Job.objects.filter(unique_for="period").update(unique_until="2020-01-01T00:00Z")


# What the key is


def key_of(bound) -> str | None:
    return bound.new_job.unique_key


def holds_key(job) -> bool:
    return Job.objects.holding_keys().filter(pk=job.pk).exists()


def test_job_without_the_option_has_no_key():
    job = enqueue(noop)
    row = fields_of(job)
    columns = ("unique_key", "unique_for", "unique_until")
    assert [row[column] for column in columns] == [None] * 3
    assert not holds_key(job)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1, date(2026, 1, 2)), {"day": "2026-01-02", "client_id": 1}),
        (
            (1, date(2026, 1, 2)),
            {"client_id": 1, "day": date(2026, 1, 2), "uuid": None},
        ),
    ],
)
def test_the_same_arguments_make_the_same_key_however_they_are_given(one, other):
    unique = report.using(unique=True)
    assert key_of(unique.bind(*one)) == key_of(unique.bind(**other))


def test_other_arguments_and_other_tasks_make_other_keys():
    unique = report.using(unique=True)
    day = date(2026, 1, 2)
    keys = {
        key_of(unique.bind(1, day)),
        key_of(unique.bind(2, day)),
        key_of(unique.bind(1, date(2026, 1, 3))),
        key_of(echo.using(unique=True).bind(1)),
        key_of(add.using(unique=True).bind(1)),
        key_of(gather.using(unique=True).bind(1, 2)),
        key_of(gather.using(unique=True).bind(2, 1)),
        key_of(gather.using(unique=True).bind(12)),
        key_of(gather.using(unique=True).bind(a=1)),
    }
    assert len(keys) == 9


def test_only_the_arguments_that_are_named_make_the_key():
    unique = report.using(unique=("client_id",))
    assert key_of(unique.bind(1, date(2026, 1, 2))) == 'tests.report:{"client_id":1}'
    assert key_of(unique.bind(1, date(2026, 1, 3))) == 'tests.report:{"client_id":1}'


@pytest.mark.parametrize(
    ("unique_key", "key"),
    [
        ("report", "report"),
        ("{{report}}", "{report}"),
        ("report-{client_id}-{day}", "report-5-2026-01-02"),
        ("report-{uuid}", "report-null"),
        (lambda client_id, day, uuid: f"{day:%Y-%m}", "2026-01"),
        (lambda *args, **kwargs: None, None),
        pytest.param("é" * 500, "é" * 500, id="long"),
    ],
)
def test_explicit_key_is_a_text_with_placeholders_or_a_callable(unique_key, key):
    bound = report.using(unique_key=unique_key).bind(5, date(2026, 1, 2))
    assert key_of(bound) == key


def test_long_arguments_are_hashed_and_long_keys_refused():
    unique = echo.using(unique=True)
    keys = {key_of(unique.bind(letter * 10_000)) for letter in "ab"}
    assert len(keys) == 2
    assert all(len(key) < 500 for key in keys)
    for key in ["{value}", lambda value: value]:
        with pytest.raises(InvalidArguments, match=r"unique_key.*500 characters"):
            echo.using(unique_key=key).enqueue("x" * 501)
    assert ids() == []


@pytest.mark.parametrize("key", ["", 5, b"key", "a\0b", "\ud800"], ids=repr)
def test_callable_must_return_a_key(key):
    with pytest.raises(InvalidArguments, match="unique_key"):
        echo.using(unique_key=lambda value: key).enqueue(1)
    assert ids() == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"unique": "client_id"}, "unique must be True"),
        ({"unique": 1}, "unique must be True"),
        ({"unique": ()}, "unique must be True"),
        ({"unique": ("day", "day")}, "unique must be True"),
        ({"unique": ("client",)}, "'client' is no parameter of report, which has cl"),
        ({"unique_key": ""}, "unique_key must be 1 to 500"),
        ({"unique_key": "x" * 501}, "unique_key must be 1 to 500"),
        ({"unique_key": 5}, "unique_key must be a text"),
        ({"unique_key": "{client}"}, "{client} is no parameter of report"),
        ({"unique_key": "{client_id.real}"}, "name of a parameter alone"),
        ({"unique_key": "{"}, "cannot be read"),
        ({"unique": True, "unique_key": "x"}, "but not both"),
        ({"unique": True, "unique_for": "ever"}, "unique_for must be 'unfinished'"),
        ({"unique": True, "unique_for": 0}, "more than 0 s"),
        ({"unique": True, "unique_for": -1}, "unique_for must be"),
        ({"unique": True, "unique_for": None}, "unique_for must be"),
        ({"unique": True, "on_conflict": "ignore"}, "on_conflict must be 'return'"),
        ({"unique_for": "waiting"}, "unique_for needs unique or unique_key"),
        ({"on_conflict": "raise"}, "on_conflict needs unique or unique_key"),
    ],
    ids=repr,
)
def test_option_that_cannot_work_is_refused_at_once(options, complaint):
    with pytest.raises(InvalidTask, match=complaint):
        task(**options)(report.function)
    if None not in options.values():
        with pytest.raises(InvalidTask, match=complaint):
            report.using(**options)


def test_options_of_one_job_replace_those_of_its_task():
    by_all = report.using(unique=True, on_conflict="raise")
    by_key = by_all.using(unique_key="{client_id}")
    day = date(2026, 1, 2)
    assert key_of(by_key.bind(7, day)) == "7"
    assert by_key.options.on_conflict == "raise"
    assert key_of(by_key.using(unique=("client_id",)).bind(7, day)).endswith("7}")
    assert key_of(by_key.using(unique=False).bind(7, day)) is None


# What each caller gets


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_second_one_gets_the_first_job(way):
    first = way.enqueue("first")
    second = way.enqueue("second")
    assert second == first
    assert second.kwargs == {"value": "first"}
    assert ids() == [first.pk]


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_returned_job_equals_its_row(way):
    options = {"priority": 5, "queue_name": "mail", "max_attempts": 7, "max_crashes": 2}
    options |= {"timeout": 9, "expires": hours(2)}
    for job in [way.using(run_after=hours(1), **options).enqueue(1), way.enqueue(2)]:
        assert not job.get_deferred_fields()
        returned = {
            field.attname: getattr(job, field.attname)
            for field in Job._meta.concrete_fields
        }
        assert returned == fields_of(job)
        assert holds_key(job)
        assert not job._state.adding


def test_unique_job_is_what_a_plain_one_is_but_for_its_key():
    options = {"priority": 5, "queue_name": "mail", "max_attempts": 7, "max_crashes": 2}
    options |= {"timeout": 9, "expires": hours(2)}
    plain, unique = (
        fields_of(each.using(run_after=hours(1), **options).enqueue(1))
        for each in (echo, KEPT)
    )
    differing = {name for name in plain if plain[name] != unique[name]}
    assert differing == {
        *("id", "turn", "enqueued_at", "run_after", "expires_at"),
        *("unique_key", "unique_for"),
    }


def test_error_names_the_job_that_is_there():
    first = KEPT.enqueue(1)
    with pytest.raises(AlreadyEnqueued) as raised:
        KEPT.using(on_conflict="raise").enqueue(2)
    assert raised.value.job == first
    assert str(raised.value) == (
        f"Job {first.pk} (tests.echo) already holds the unique key 'key'."
    )


def test_nothing_stands_in_the_place_of_one_that_is_skipped():
    skipping = KEPT.using(on_conflict="skip")
    assert skipping.enqueue(1).kwargs == {"value": 1}
    assert skipping.enqueue(2) is None
    assert enqueue(skipping, 3) is None
    assert values() == [1]


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_last_arguments_and_time_replace_those_of_a_job_that_has_not_started(way):
    first = way.using(run_after=hours(1), priority=3).enqueue("first")
    later = way.using(run_after=hours(2), on_conflict="replace").enqueue("second")
    assert later == first
    assert (later.kwargs, later.status) == ({"value": "second"}, "SCHEDULED")
    assert later.run_after > first.run_after + timedelta(minutes=59)
    now = way.using(on_conflict="replace", priority=9).enqueue("third")
    assert now == first
    assert (now.kwargs, now.status, now.run_after) == (
        {"value": "third"},
        "READY",
        None,
    )
    assert now.priority == 3
    assert ids() == [first.pk]


def test_replaced_job_that_is_due_earlier_wakes_the_workers(transactional_db):
    KEPT.using(run_after=hours(2), queue_name="mail").enqueue(1)
    with session() as listening:
        listening.listen("pgjobs")
        KEPT.using(run_after=hours(1), on_conflict="replace").enqueue(2)
        assert listening.heard() == [("pgjobs", "mail")]


@pytest.mark.parametrize(
    ("change", "kept", "status"),
    [
        (lambda job: job.cancel(), "first", "CANCELLED"),
        (lambda job: Job.objects.filter(pk=job.pk).update(priority=9), 2, "SCHEDULED"),
    ],
    ids=["cancelled", "another priority"],
)
def test_job_is_replaced_as_the_transaction_before_has_left_it(
    change, kept, status, transactional_db
):
    first = KEPT.using(run_after=hours(1)).enqueue("first")
    replacing = KEPT.using(on_conflict="replace", run_after=hours(2))
    _, job = overlapping(lambda: change(first), lambda: replacing.enqueue(2))
    assert job.kwargs == {"value": 2}
    row = fields_of(first)
    assert (row["kwargs"], row["status"]) == ({"value": kept}, status)
    assert (job == first, row["priority"]) == (kept == 2, 9 if kept == 2 else 0)


@pytest.mark.parametrize("way", [KEPT, HOURLY], ids=["unfinished", "period"])
def test_job_that_has_started_is_not_replaced(way):
    running = running_job(way, "first")
    got = way.using(on_conflict="replace").enqueue("second")
    assert (got, got.status, got.kwargs) == (running, "RUNNING", {"value": "first"})
    assert values() == ["first"]


def test_job_that_is_tried_again_has_started():
    hand = Hand()
    KEPT.enqueue("first")
    assert hand.set_back(hand.claim_one(), "RETRY") == "READY"
    assert KEPT.using(on_conflict="replace").enqueue("second").attempts == 1
    assert values() == ["first"]


def test_queries_are_few():
    with CaptureQueriesContext(
        connection,
    ) as first:
        KEPT.enqueue(1)
    with CaptureQueriesContext(connection) as second:
        KEPT.enqueue(2)
    assert [len(first), len(second)] == [1, 2]


def test_signal_announces_new_jobs_only():
    told = []

    def receiver(job, **named):
        told.append(job)

    signals.job_enqueued.connect(receiver)
    try:
        job = KEPT.enqueue(1)
        for on_conflict in ["return", "replace", "skip"]:
            KEPT.using(on_conflict=on_conflict).enqueue(2)
    finally:
        signals.job_enqueued.disconnect(receiver)
    assert told == [job]


def test_async_code_gets_the_same(transactional_db):
    first = async_to_sync(aenqueue)(KEPT, 1)
    assert async_to_sync(KEPT.aenqueue)(2) == first
    assert async_to_sync(aenqueue)(KEPT.using(on_conflict="skip"), 3) is None
    with pytest.raises(AlreadyEnqueued):
        async_to_sync(aenqueue)(KEPT.using(on_conflict="raise"), 4)


def test_tasks_may_share_a_key_but_not_over_different_spans():
    job = KEPT.enqueue(1)
    assert noop.using(unique_key="key").enqueue() == job
    others = [WAITS.enqueue(1), HOURLY.enqueue(1)]
    assert len({job, *others}) == 3


# How long the key is held


def in_every_status(way):
    """Yield a job of this way in each status."""
    hand = Hand()
    for status in (*QUEUED, "RUNNING", *FINISHED):
        Job.objects.all().delete()
        job = way.using(run_after=hours(status == "SCHEDULED")).enqueue(1)
        if status == "WAITING":
            Job.objects.filter(pk=job.pk).update(status="WAITING", waiting_for="lock")
        elif status in ("RUNNING", *FINISHED):
            claimed = hand.claim_one()
            match status:
                case "SUCCESSFUL":
                    assert hand.succeed(claimed)
                case "FAILED":
                    hand.set_back(claimed, "FAIL")
                case "CANCELLED":
                    hand.set_back(claimed, "CANCEL")
        job.refresh_from_db()
        assert job.status == status
        yield job


@pytest.mark.parametrize(
    ("way", "holding"),
    [
        (KEPT, {*QUEUED, "RUNNING"}),
        (WAITS, {*QUEUED}),
        (HOURLY, {*QUEUED, "RUNNING", "SUCCESSFUL"}),
    ],
    ids=WAYS,
)
def test_key_is_held_in_these_statuses(way, holding):
    held = {job.status for job in in_every_status(way) if way.enqueue(2) == job}
    assert held == holding


@pytest.mark.parametrize("verdict", ["RETRY", "SNOOZE", "RELEASE", "UNKNOWN"])
@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_job_that_goes_back_to_the_queue_never_meets_a_newer_one(way, verdict):
    """With procrastinate's queueing lock such a job stayed in `doing` for ever."""
    hand = Hand()
    job = way.enqueue("first")
    claimed = hand.claim_one()
    other = way.enqueue("second")
    assert (other == job) is (way is not WAITS)
    assert hand.set_back(claimed, verdict) == "READY"
    assert way.enqueue("third") == other
    assert hand.claim(5) != []
    assert not Job.objects.ready().exists()


def test_rescued_job_does_not_meet_a_newer_one_either():
    dead, rescuer = Hand("dead"), Hand("rescuer")
    job = WAITS.enqueue("first")
    dead.claim_one()
    newer = WAITS.enqueue("second")
    dead.vanish()
    assert [each.id for each in rescuer.rescue()] == [job.pk]
    assert Job.objects.ready().count() == 2
    assert WAITS.enqueue("third") == newer


def test_period_is_over_after_its_time_whatever_the_job_does():
    first = HOURLY.enqueue("first")
    let_period_pass()
    second = HOURLY.enqueue("second")
    assert second != first
    assert HOURLY.enqueue("third") == second
    first.refresh_from_db()
    assert (first.status, first.unique_until) == ("READY", None)
    assert not holds_key(first)


def test_period_begins_when_the_job_is_enqueued():
    job = HOURLY.using(run_after=hours(5)).enqueue(1)
    lasts = execute("SELECT unique_until - enqueued_at FROM pgjobs_job")[0][0]
    assert abs(lasts - hours(1)) < timedelta(seconds=10)
    HOURLY.using(on_conflict="replace").enqueue(2)
    assert fields_of(job)["unique_until"] == job.unique_until


def test_pruning_leaves_the_job_that_holds_a_key_until_its_period_is_over():
    job = HOURLY.enqueue(1)
    job.succeed()
    ages = {"SUCCESSFUL": 0.0}
    assert upkeep.prune(execute, ages) == 0
    let_period_pass()
    assert upkeep.prune(execute, ages) == 1


# Several at a time


def test_positions_are_kept_and_duplicates_of_one_call_are_one_job():
    there = KEPT.enqueue("there")
    keyed = echo.using(unique_key="{value}")
    jobs = enqueue_many(
        [
            noop.bind(),
            keyed.bind("b"),
            KEPT.bind("no"),
            keyed.bind("a"),
            keyed.using(on_conflict="skip").bind("b"),
            keyed.bind("b"),
            noop.bind(),
        ]
    )
    assert jobs[2] == there
    assert jobs[4] is None
    assert jobs[5] == jobs[1]
    new = [jobs[position] for position in (0, 1, 3, 6)]
    assert [job.task for job in new] == [
        "tests.noop",
        *["tests.echo"] * 2,
        "tests.noop",
    ]
    assert [job.kwargs for job in new] == [{}, {"value": "b"}, {"value": "a"}, {}]
    assert [job.pk for job in new] == sorted(job.pk for job in new)
    assert ids() == [there.pk, *(job.pk for job in new)]


def test_last_one_of_a_call_replaces_those_before_it():
    replacing = KEPT.using(on_conflict="replace")
    jobs = enqueue_many([replacing.bind(number) for number in range(4)])
    assert {job.pk for job in jobs} == set(ids())
    assert [job.kwargs for job in jobs] == [{"value": 3}] * 4
    assert values() == [3]


def test_conflict_that_raises_leaves_nothing_behind():
    there = KEPT.enqueue("there")
    raising = KEPT.using(on_conflict="raise")
    with pytest.raises(AlreadyEnqueued) as raised:
        enqueue_many([noop.bind(), raising.bind(1), noop.bind()])
    assert raised.value.job == there
    assert ids() == [there.pk]
    there.cancel()
    with pytest.raises(AlreadyEnqueued):
        enqueue_many([raising.bind(1), raising.bind(2)])
    assert ids() == [there.pk]


def test_thousands_are_few_statements():
    keyed = echo.using(unique_key="{value}")
    enqueue_many([keyed.bind(number) for number in range(0, 5_000, 2)])
    with CaptureQueriesContext(connection) as queries:
        jobs = enqueue_many([keyed.bind(number) for number in range(5_000)])
    assert [job.kwargs["value"] for job in jobs] == list(range(5_000))
    assert len(queries) <= 5  # a savepoint and its release among them
    assert Job.objects.count() == 5_000


# In transactions


@pytest.mark.parametrize("on_conflict", ["return", "raise", "replace", "skip"])
def test_transaction_of_the_caller_works_on_after_a_conflict(on_conflict):
    KEPT.enqueue(1)
    with transaction.atomic():
        try:
            KEPT.using(on_conflict=on_conflict).enqueue(2)
        except AlreadyEnqueued:
            assert on_conflict == "raise"
        other = noop.enqueue()
    assert Job.objects.filter(pk=other.pk).exists()


def test_key_of_a_rolled_back_job_is_free():
    with transaction.atomic():
        with transaction.atomic():
            KEPT.enqueue(1)
            transaction.set_rollback(True)
        assert KEPT.enqueue(2).kwargs == {"value": 2}


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_second_enqueue_waits_for_the_first_and_gets_its_job(way, transactional_db):
    first, second = overlapping(
        lambda: way.enqueue("first"), lambda: way.enqueue("second")
    )
    assert second == first
    assert values() == ["first"]


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_second_enqueue_gets_the_key_if_the_first_rolls_back(way, transactional_db):
    with pytest.raises(RolledBack), ExitStack() as stack, transaction.atomic():
        way.enqueue("first")
        future = stack.enter_context(in_thread(lambda: way.enqueue("second")))
        wait_for(lambda: execute(SESSION_WAITS)[0][0], "the second waits")
        raise RolledBack
    assert future.result(timeout=60).kwargs == {"value": "second"}
    assert values() == ["second"]


def test_second_enqueue_gets_the_key_if_the_first_job_ends_meanwhile(
    transactional_db,
):
    """The caller finds the key taken, then free again, and must notice neither."""
    first = KEPT.enqueue("first")
    first_ended, _ = overlapping(first.cancel, lambda: KEPT.enqueue("second"))
    assert first_ended
    # Whether the second saw the first end depends on the moment; never neither.
    assert Job.objects.holding_keys().count() <= 1
    assert KEPT.enqueue("third").kwargs["value"] in ("second", "third")


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_eight_connections_that_enqueue_one_key_make_one_job(way, transactional_db):
    barrier = threading.Barrier(8, timeout=60)

    def enqueue_often(number: int):
        try:
            barrier.wait()
            return [way.enqueue(number) for _ in range(10)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(enqueue_often, range(8)))
    assert len({job.pk for jobs in results for job in jobs}) == 1
    assert Job.objects.count() == 1


def test_batches_with_the_same_keys_in_any_order_do_not_deadlock(transactional_db):
    """While both wait for a key, neither may hold one that the other needs next."""
    keyed = echo.using(unique_key="{value}")

    def enqueue_all(keys: str):
        return enqueue_many([keyed.bind(key) for key in keys])

    def waiting() -> int:
        return execute(WAITING_SESSIONS)[0][0]

    with pytest.raises(RolledBack), ExitStack() as stack, transaction.atomic():
        keyed.enqueue("m")
        one = stack.enter_context(in_thread(lambda: enqueue_all("amz")))
        wait_for(lambda: waiting() == 1, "one waits")
        other = stack.enter_context(in_thread(lambda: enqueue_all("zma")))
        wait_for(lambda: waiting() == 2, "both wait")
        raise RolledBack
    assert other.result(timeout=60) == one.result(timeout=20)[::-1]
    assert values() == ["a", "m", "z"]


def test_every_caller_gets_its_job_while_jobs_come_and_go(transactional_db):
    """Callers enqueue, cancel and retry at once; there is never a second job."""
    barrier = threading.Barrier(4, timeout=60)

    def play(number: int):
        on_conflict = ("return", "replace", "skip")[number % 3]
        replacing = KEPT.using(on_conflict=on_conflict)
        try:
            barrier.wait()
            for repetition in range(5):
                job = replacing.enqueue([number, repetition])
                if job is not None:
                    job.cancel()
                    job.retry()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(play, range(4)))
    assert Job.objects.holding_keys().count() <= 1


# The operator's retry


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_retry_of_a_job_whose_key_is_taken_changes_nothing(way):
    old = way.enqueue("old")
    old.fail()
    newer = way.enqueue("newer")
    assert newer != old
    before = fields_of(old)
    assert old.retry() is False
    assert fields_of(old) == before
    newer.fail()
    assert old.retry() is True
    assert holds_key(old)
    assert way.enqueue("third") == old


def test_of_all_that_are_retried_together_the_newest_gets_the_key():
    jobs = []
    for number in range(3):
        jobs.append(KEPT.enqueue(number))
        jobs[-1].fail()
    plain = noop.enqueue()
    plain.fail()
    assert Job.objects.failed().retry() == (2, 2)
    ready = Job.objects.ready().order_by("pk")
    assert list(ready) == [jobs[-1], plain]


def test_retry_takes_no_key_up_whose_period_is_over():
    old = HOURLY.enqueue("old")
    old.fail()
    newer = HOURLY.enqueue("newer")
    Job.objects.filter(pk=old.pk).update(unique_until="2020-01-01T00:00Z")
    assert old.retry() is True
    assert (holds_key(old), old.unique_until) == (False, None)
    assert HOURLY.enqueue("third") == newer


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_retry_waits_for_a_newer_job_that_is_not_committed(way, transactional_db):
    old = way.enqueue("old")
    old.fail()
    newer, retried = overlapping(lambda: way.enqueue("newer"), old.retry)
    assert retried is False
    assert list(Job.objects.ready()) == [newer]


@pytest.mark.parametrize("way", EVERY_WAY, ids=WAYS)
def test_enqueueing_waits_for_a_retry_that_is_not_committed(way, transactional_db):
    old = way.enqueue("old")
    old.fail()
    retried, newer = overlapping(old.retry, lambda: way.enqueue("newer"))
    assert retried is True
    assert newer == old
    assert values() == ["old"]


def test_retry_that_is_overtaken_keeps_the_transaction_of_its_caller(transactional_db):
    old = KEPT.enqueue("old")
    old.fail()

    def retry_and_go_on():
        with transaction.atomic():
            return old.retry(), noop.enqueue()

    newer, (retried, other) = overlapping(
        lambda: KEPT.enqueue("newer"), retry_and_go_on
    )
    assert retried is False
    assert set(Job.objects.ready()) == {newer, other}


def test_database_itself_refuses_two_holders_of_a_key():
    KEPT.enqueue(1)
    other = echo.enqueue(2)
    with pytest.raises(Exception, match="pgjobs_job_unique"), transaction.atomic():
        Job.objects.filter(pk=other.pk).update(
            unique_key="key", unique_for="unfinished"
        )


@pytest.mark.parametrize(
    "columns",
    [
        {"unique_key": "key"},
        {"unique_for": "waiting"},
        {"unique_key": "", "unique_for": "waiting"},
        {"unique_key": "key", "unique_for": "ever"},
        {"unique_key": "key", "unique_for": "waiting", "unique_until": "2100-01-01"},
        {"unique_until": "2100-01-01"},
    ],
    ids=repr,
)
def test_database_refuses_half_a_key(columns):
    job = noop.enqueue()
    names = ", ".join(f"{name} = '{value}'" for name, value in columns.items())
    with (
        pytest.raises(Exception, match=r"unique_(key|for|until) |too long"),
        transaction.atomic(),
    ):
        execute(f"UPDATE pgjobs_job SET {names} WHERE id = {job.pk}")
