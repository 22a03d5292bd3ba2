"""Groups: batches, with callbacks when all jobs have ended or the first has failed."""

from functools import partial

import pytest
from django.db import transaction
from django.utils import timezone

from pgjobs import chain, enqueue, enqueue_many, group
from pgjobs.exceptions import InvalidTask
from pgjobs.models import Batch, Job, Note
from pgjobs.queue import admitting, upkeep
from tests.actors import (
    Hand,
    admit,
    execute,
    hours,
    run_next,
    session,
    statuses,
    stored_statuses,
)
from tests.processes import shared_queue
from tests.queue.test_enqueue import check_that_it_says_what_to_await
from tests.tasks import echo, noop

pytestmark = shared_queue

low = noop.using(priority=-1)
then = low.bind()


@pytest.fixture(autouse=True)
def worker(db):
    """A worker that serves all queues: without one nothing is admitted."""
    return Hand("idle")


def status_of(job: Job) -> str:
    """Return the status once a worker has looked at what rows and notes say."""
    admit(sweeps=False)
    job.refresh_from_db()
    return job.status


def callbacks(batch: Batch) -> list[Job]:
    """Return the jobs that are of no batch, in the order of their ids."""
    return list(Job.objects.filter(batch=None).order_by("pk"))


def test_group_is_a_batch_whose_jobs_run_side_by_side():
    batch = enqueue(group([echo.bind(1), echo.bind(2)], description="Both"))
    assert (batch.pk, batch.description) == (Batch.objects.get().pk, "Both")
    jobs = batch.jobs.order_by("pk")
    assert [job.kwargs["value"] for job in jobs] == [1, 2]
    assert statuses() == ["READY", "READY"]


def test_callback_runs_once_all_jobs_of_the_batch_have_ended():
    enqueue(group([noop.bind() for _ in range(3)], then=then))
    assert statuses() == ["READY", "READY", "READY", "WAITING"]
    hand = Hand()
    for verdict in ("SUCCESS", "FAIL", "CANCEL"):
        assert statuses()[-1] == "WAITING"
        run_next(verdict, hand)
    assert statuses() == ["SUCCESSFUL", "FAILED", "CANCELLED", "READY"]


def test_callback_runs_at_the_first_failure():
    parts = [noop.bind() for _ in range(3)]
    batch = enqueue(group(parts, then=then, on_failure=low.bind()))
    last, failure = callbacks(batch)
    run_next()
    assert status_of(failure) == "WAITING"
    run_next("FAIL")
    assert (status_of(failure), status_of(last)) == ("READY", "WAITING")
    run_next("FAIL")
    assert (status_of(failure), status_of(last)) == ("READY", "READY")


def test_callback_for_failures_is_cancelled_if_none_fails():
    batch = enqueue(group([noop.bind(), noop.bind()], on_failure=low.bind()))
    (failure,) = callbacks(batch)
    run_next()
    run_next("CANCEL")
    assert status_of(failure) == "CANCELLED"
    assert failure.reason == f"Cancelled: no job of batch {batch.pk} failed."


def test_callbacks_run_once_even_if_jobs_are_retried():
    batch = enqueue(group([noop.bind()], then=then, on_failure=low.bind()))
    run_next("FAIL")
    assert statuses() == ["FAILED", "READY", "READY"]
    batch.jobs.all().retry()
    hand = Hand()
    for _ in range(3):
        run_next(hand=hand)
    assert statuses() == ["SUCCESSFUL"] * 3
    assert not hand.claim(5)


def test_group_in_a_chain_is_waited_for_as_a_whole():
    jobs = enqueue(chain(noop.bind(), group([noop.bind(), noop.bind()]), noop.bind()))
    assert isinstance(jobs[1], Batch)
    assert statuses() == ["READY", "WAITING", "WAITING", "WAITING"]
    run_next()
    assert statuses() == ["SUCCESSFUL", "READY", "READY", "WAITING"]
    run_next()
    assert statuses()[-1] == "WAITING"
    run_next()
    assert statuses() == ["SUCCESSFUL"] * 3 + ["READY"]


def test_failed_job_of_a_group_cancels_what_follows_once_all_have_ended():
    _, last = enqueue(chain(group([noop.bind(), noop.bind()]), noop.bind()))
    failed = run_next("FAIL")
    assert status_of(last) == "WAITING"
    run_next()
    assert status_of(last) == "CANCELLED"
    batch = Batch.objects.get()
    assert last.reason == f"Cancelled: job {failed} of batch {batch.pk} failed."


def test_retry_of_the_failed_job_of_a_group_brings_back_what_follows():
    _, last = enqueue(chain(group([noop.bind(), noop.bind()]), noop.bind()))
    failed = run_next("FAIL")
    run_next()
    assert status_of(last) == "CANCELLED"
    assert Job.objects.get(pk=failed).retry()
    assert status_of(last) == "WAITING"
    run_next()
    assert status_of(last) == "READY"


def test_group_whose_predecessor_fails_is_cancelled_with_what_follows():
    first, batch, last = enqueue(
        chain(noop.bind(), group([noop.bind(), noop.bind()], then=then), noop.bind())
    )
    first.fail()
    assert status_of(last) == "CANCELLED"
    assert set(batch.jobs.values_list("status", flat=True)) == {"CANCELLED"}
    callback = Job.objects.get(status="READY")
    assert callback.priority == -1
    assert first.retry()
    assert status_of(last) == "WAITING"
    assert set(batch.jobs.values_list("status", flat=True)) == {"WAITING"}


def test_chains_of_a_group_belong_to_its_batch():
    branch = chain(noop.bind(), noop.bind())
    batch = enqueue(group([branch, branch], then=then))
    assert batch.jobs.count() == 4
    assert statuses() == ["READY", "READY", "WAITING", "WAITING", "WAITING"]
    hand = Hand()
    for _ in range(4):
        assert statuses()[-1] == "WAITING"
        run_next(hand=hand)
    assert statuses()[-1] == "READY"


def test_group_in_a_chain_in_a_group_belongs_to_the_outer_batch():
    inner = chain(group([noop.bind(), noop.bind()]), noop.bind())
    batch = enqueue(group([inner, noop.bind()], then=then))
    assert Batch.objects.count() == 1
    assert batch.jobs.count() == 4
    assert sorted(statuses()) == ["READY"] * 3 + ["WAITING"] * 2


def test_batches_and_jobs_may_come_before_a_job():
    batch, job = enqueue(group([noop.bind()])), enqueue(noop)
    last = enqueue(low.using(after=[batch, job]))
    job.succeed()
    assert status_of(last) == "WAITING"
    batch.jobs.all().succeed()
    assert status_of(last) == "READY"


@pytest.mark.parametrize(
    ("verdict", "status"), [("SUCCESS", "READY"), ("FAIL", "CANCELLED")]
)
def test_job_after_a_batch_that_has_ended_is_decided_at_once(verdict, status):
    batch = enqueue(group([noop.bind()]))
    run_next(verdict)
    assert status_of(enqueue(noop.using(after=batch))) == status
    anyway = noop.using(after=batch, after_failure="run")
    assert status_of(enqueue(anyway)) == "READY"


def test_batch_can_be_added_to_by_its_own_jobs():
    batch = enqueue(group([noop.bind()], then=then))
    hand = Hand()
    first = hand.claim_one()
    added = enqueue_many([noop.using(batch=batch).bind() for _ in range(2)])
    assert {job.batch_id for job in added} == {batch.pk}
    assert hand.succeed(first)
    run_next(hand=hand)
    assert statuses()[1] == "WAITING"
    run_next(hand=hand)
    assert statuses()[1] == "READY"


def test_group_waits_for_the_job_that_holds_a_unique_key():
    unique = noop.using(unique_key="one", priority=5)
    holder = enqueue(unique)
    batch = enqueue(group([unique.bind(), noop.bind()], then=then))
    assert batch.jobs.count() == 1
    batch.jobs.all().succeed()
    assert statuses()[-1] == "WAITING"
    holder.succeed()
    assert statuses()[-1] == "READY"


@pytest.mark.parametrize("is_admitted", [False, True])
@pytest.mark.parametrize("act", ["cancel", "fail", "discard", "delete"])
def test_operators_act_on_the_last_job_of_a_batch_ends_it(act, is_admitted):
    batch = enqueue(group([noop.bind()], then=then))
    (callback,) = callbacks(batch)
    if is_admitted:
        admit()
    getattr(batch.jobs.all(), act)()
    assert status_of(callback) == "READY"


def test_row_inserted_by_sql_can_belong_to_a_batch():
    execute("INSERT INTO pgjobs_batch DEFAULT VALUES")
    batch = Batch.objects.get()
    execute(
        "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop', %(keys)s)",
        {"keys": f'{{"batch_id": {batch.pk}}}'},
    )
    assert batch.jobs.count() == 1


# Progress


def test_progress_of_a_batch_is_one_query(django_assert_num_queries):
    batch = enqueue(group([chain(noop.bind(), noop.bind()), *[noop.bind()] * 4]))
    run_next()
    run_next("FAIL")
    Hand().claim_one()
    with django_assert_num_queries(1):
        progress = batch.progress()
    assert (progress.total, progress.finished, progress.failed) == (6, 2, 1)
    assert (progress.running, progress.successful) == (1, 1)
    assert not progress.is_finished


def test_batch_is_cancelled_and_retried_as_a_whole():
    batch = enqueue(group([noop.bind() for _ in range(3)], then=then))
    run_next("FAIL")
    run_next()
    assert batch.cancel() == (1, 0)
    assert batch.progress().is_finished
    assert batch.retry() == (1, 0)
    assert batch.progress().ready == 1


# Bad input


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (([],), "A group of nothing"),
        ((noop.bind(),), "group takes a list of jobs"),
        ((noop.bind(), noop.bind()), r"group\(\[first, second\]\)"),
        (([noop],), "got <Task tests.noop> at position 0"),
        (([group([noop.bind()], then=then)],), "can have no callbacks"),
    ],
)
def test_what_cannot_be_a_group_is_named(arguments, fault):
    with pytest.raises(InvalidTask, match=fault):
        group(*arguments)


def test_batch_without_a_description_says_what_it_is():
    batch = enqueue(group([noop.bind()]))
    assert str(batch) == f"Batch #{batch.pk}"
    batch = enqueue(group([noop.bind()], description="nightly"))
    assert str(batch) == f"nightly #{batch.pk}"


def test_callback_must_be_bound():
    with pytest.raises(
        InvalidTask, match=r"then must be what task.bind\(...\) returns"
    ):
        group([noop.bind()], then=noop)


def test_description_that_is_too_long_is_refused():
    with pytest.raises(InvalidTask, match="at most 200 characters"):
        group([noop.bind()], description="x" * 201)


def test_job_of_a_group_cannot_belong_to_another_batch():
    batch = enqueue(group([noop.bind()]))
    with pytest.raises(InvalidTask, match="says batch= and stands in a group"):
        group([noop.using(batch=batch).bind()])


@pytest.mark.parametrize("batch", [5, Batch()])
def test_batch_must_be_a_batch_that_is_saved(batch):
    with pytest.raises(InvalidTask, match="batch"):
        noop.using(batch=batch)


# Transactions that race. None waits for another.


@pytest.mark.parametrize("looks_between", [False, True])
@pytest.mark.parametrize("first", [0, 1])
def test_last_two_jobs_that_end_at_the_same_time_end_the_batch(first, looks_between):
    """Neither sees the other's end, but an admission sees both."""
    batch = enqueue(group([noop.bind(), noop.bind()], then=then))
    (callback,) = callbacks(batch)
    with session() as one, session() as two:
        hands = [Hand(execute=each.execute) for each in (one, two)]
        claimed = [hand.claim_one() for hand in hands]
        for each, hand, job in zip((one, two), hands, claimed, strict=True):
            each.begin()
            assert hand.succeed(job)
        sessions = [one, two]
        sessions[first].commit()
        if looks_between:
            assert status_of(callback) == "WAITING"
        sessions[1 - first].commit()
    assert stored_statuses()[-1] == "WAITING"
    assert status_of(callback) == "READY"
    assert not Note.objects.exists()


def test_end_that_is_rolled_back_does_not_end_the_batch():
    batch = enqueue(group([noop.bind(), noop.bind()], then=then))
    (callback,) = callbacks(batch)
    with session() as one, session() as two:
        hands = [Hand(execute=each.execute) for each in (one, two)]
        claimed = [hand.claim_one() for hand in hands]
        for each, hand, job in zip((one, two), hands, claimed, strict=True):
            each.begin()
            assert hand.succeed(job)
        one.rollback()
        two.commit()
        assert status_of(callback) == "WAITING"
        assert hands[0].succeed(claimed[0])
    assert status_of(callback) == "READY"


@pytest.mark.parametrize("act", ["succeed", "fail", "cancel", "discard"])
def test_callback_whose_row_another_session_holds_is_admitted_later(act):
    batch = enqueue(group([noop.bind(), noop.bind()], then=then))
    (callback,) = callbacks(batch)
    run_next()
    with session() as other:
        other.begin()
        other.execute(
            "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", {"id": callback.pk}
        )
        getattr(batch.jobs.filter(finished_at=None), act)()
        for _ in range(2):
            assert status_of(callback) == "WAITING"
        assert admitting.admit(execute).is_blocked
        other.commit()
    assert status_of(callback) == "READY"
    assert not Note.objects.exists()


def test_callback_of_failures_whose_row_another_session_holds_is_admitted_later():
    batch = enqueue(group([noop.bind(), noop.bind()], on_failure=low.bind()))
    (callback,) = callbacks(batch)
    admit()
    with session() as other:
        other.begin()
        other.execute(
            "SELECT FROM pgjobs_job WHERE id = %(id)s FOR UPDATE", {"id": callback.pk}
        )
        run_next("FAIL")
        assert status_of(callback) == "WAITING"
        other.commit()
    assert status_of(callback) == "READY"


@pytest.mark.parametrize("act", ["succeed", "discard"])
def test_end_of_a_batch_admits_any_number_of_jobs(act):
    batch = enqueue(group([noop.bind()]))
    anyway = noop.using(after=batch, after_failure="run")
    enqueue_many([anyway.bind() for _ in range(600)])
    admit()
    getattr(batch.jobs.all(), act)()
    for _ in range(3):
        admit(sweeps=False)
    assert set(stored_statuses()[-600:]) == {"READY"}
    assert not Note.objects.exists()


def test_jobs_of_a_batch_that_nothing_waits_for_leave_no_notes():
    batch = enqueue(group([noop.bind(), noop.bind()]))
    with session() as one, session() as two:
        for each in (one, two):
            hand = Hand(execute=each.execute)
            job = hand.claim_one()
            each.begin()
            assert hand.succeed(job)
        one.commit()
        two.commit()
    admit(sweeps=False)
    assert not Note.objects.exists()
    assert not Job.objects.exclude(line=None).exists()
    assert batch.jobs.filter(status="SUCCESSFUL").count() == 2


@pytest.mark.parametrize("looks_between", [False, True])
@pytest.mark.parametrize("first", ["end", "arrival"])
def test_job_that_begins_to_wait_while_the_batch_ends_is_admitted(first, looks_between):
    batch = enqueue(group([noop.bind()]))
    with session() as worker, session() as app:
        hand = Hand(execute=worker.execute)
        job = hand.claim_one()
        worker.begin()
        assert hand.succeed(job)
        app.begin()
        app.execute(
            "INSERT INTO pgjobs_job (task, keys) VALUES ('tests.noop',"
            f""" '{{"after_batches": [{batch.pk}]}}')"""
        )
        for each in (worker, app) if first == "end" else (app, worker):
            each.commit()
            if looks_between:
                admit(sweeps=False)
    admit(sweeps=False)
    assert stored_statuses() == ["SUCCESSFUL", "READY"]
    assert not Note.objects.exists()


def test_group_that_is_rolled_back_leaves_no_batch():
    with transaction.atomic():
        enqueue(group([noop.bind()], then=then))
        transaction.set_rollback(True)
    assert not Batch.objects.exists()


def test_empty_batches_behind_many_with_jobs_are_pruned(monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    kept = [enqueue(group([noop.bind()])) for _ in range(5)]
    empty = [enqueue(group([noop.bind()])) for _ in range(3)]
    Job.objects.filter(batch_id__in=[each.pk for each in empty]).delete()
    Batch.objects.update(enqueued_at=timezone.now() - hours(2))
    pruned, after = 0, 0
    while after is not None:
        number, after = upkeep.prune_batches(execute, after)
        pruned += number
    assert pruned == 3
    assert set(Batch.objects.all()) == set(kept)


def test_batch_is_pruned_with_the_last_of_its_jobs():
    batch = enqueue(group([noop.bind(), noop.bind()]))
    run_next()
    batch.jobs.filter(status="READY").cancel()
    admit()
    Batch.objects.update(enqueued_at=timezone.now() - hours(2))
    ages = {"SUCCESSFUL": 0, "CANCELLED": None}
    assert upkeep.prune(execute, ages) == 1
    assert upkeep.prune_batches(execute) == (0, None)
    assert upkeep.prune(execute, {"CANCELLED": 0}) == 1
    assert upkeep.prune_batches(execute) == (1, None)
    assert not Batch.objects.exists()


def test_group_in_async_code_says_what_to_await():
    check_that_it_says_what_to_await(partial(enqueue, group([noop.bind()])))
