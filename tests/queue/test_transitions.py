"""The acts on jobs: what each does to a job of each status, alone and in a race."""

import math
from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from pgjobs import signals
from pgjobs.conf import FINISHED
from pgjobs.models import Attempt, Job, Progress, Status, Worker
from pgjobs.models.job_choices import QUEUED
from pgjobs.queue import acts, recording, upkeep
from pgjobs.queue.acts import Changed
from pgjobs.queue.claiming import ClaimedJob
from tests.actors import (
    WAITING_SESSIONS,
    Hand,
    Session,
    attempts_of,
    execute,
    fields_of,
    finished_job,
    hours,
    in_thread,
    job_that_is,
    overlapping,
    running_job,
    session,
)
from tests.processes import wait_for
from tests.tasks import noop

pytestmark = pytest.mark.django_db

ACTS = ("retry", "cancel", "fail", "succeed", "run_now")
NOW = "a time a moment ago"
NEW = "a larger token"

CANCELLED = {"status": "CANCELLED", "finished_at": NOW, "reason": "Cancelled."}
FAILED = {"status": "FAILED", "finished_at": NOW, "reason": "Failed by hand."}
SUCCESSFUL = {"status": "SUCCESSFUL", "finished_at": NOW}
FENCED = {"lease_token": NEW, "worker_id": None}
NEW_LIFE = {
    "status": "READY",
    "life": 2,
    "attempts": 0,
    "started_at": None,
    "last_attempted_at": None,
    "finished_at": None,
    "run_after": NOW,  # since when it waits
}
# What each act changes; what is not here it must not touch.
NOT_WAITING = {"waiting_for": None, "line": None}
EFFECTS = {
    ("cancel", "READY"): CANCELLED,
    ("cancel", "SCHEDULED"): CANCELLED,
    ("cancel", "WAITING"): CANCELLED | NOT_WAITING,
    ("cancel", "RUNNING"): {"cancel_requested_at": NOW, "reason": "Cancelled."},
    ("fail", "READY"): FAILED,
    ("fail", "SCHEDULED"): FAILED,
    ("fail", "WAITING"): FAILED | NOT_WAITING,
    ("fail", "RUNNING"): FAILED | FENCED,
    ("succeed", "READY"): SUCCESSFUL,
    ("succeed", "SCHEDULED"): SUCCESSFUL,
    ("succeed", "WAITING"): SUCCESSFUL | NOT_WAITING,
    ("succeed", "RUNNING"): SUCCESSFUL | FENCED | {"worker_name": "hand"},
    ("run_now", "SCHEDULED"): {"status": "READY", "run_after": NOW},
    ("retry", "SUCCESSFUL"): NEW_LIFE | {"return_value": None},
    ("retry", "FAILED"): NEW_LIFE | {"failures": 0, "reason": ""},
    ("retry", "CANCELLED"): NEW_LIFE | {"reason": ""},
}


def effect(before: dict, after: dict) -> dict:
    """Return what changed, in the words of EFFECTS."""
    changes = {name: after[name] for name in after if after[name] != before[name]}
    for name, value in changes.items():
        if name == "lease_token" and value > before[name]:
            changes[name] = NEW
        if name.endswith(("_at", "_after")) and value is not None:
            assert abs(timezone.now() - value) < timedelta(minutes=1)
            changes[name] = NOW
    return changes


def of_each_status() -> dict[str, Job]:
    return {status: job_that_is(status) for status in Status.values}


# One job


@pytest.mark.parametrize("status", Status.values)
@pytest.mark.parametrize("act", ACTS)
def test_act_does_what_the_status_allows_and_nothing_else(act, status):
    job = job_that_is(status)
    before = fields_of(job)
    expected = EFFECTS.get((act, status), {})
    assert getattr(job, act)() is bool(expected)
    assert effect(before, fields_of(job)) == expected
    # What was done once is not done again; nothing allows the same act twice.
    before = fields_of(job)
    assert getattr(job, act)() is False
    assert fields_of(job) == before


@pytest.mark.parametrize("status", Status.values)
@pytest.mark.parametrize("act", ACTS)
def test_instance_is_fresh_after_the_act(act, status):
    job = job_that_is(status)
    Job.objects.filter(pk=job.pk).update(priority=7)
    getattr(job, act)()
    now = {
        field.attname: getattr(job, field.attname)
        for field in Job._meta.concrete_fields
    }
    assert now == fields_of(job)


@pytest.mark.parametrize("act", ACTS)
def test_row_that_is_gone_is_not_changed(act):
    job = noop.enqueue()
    Job.objects.all().delete()
    assert getattr(job, act)() is False
    assert job.pk is not None


@pytest.mark.parametrize("act", ACTS)
def test_unsaved_job_is_not_changed(act):
    assert getattr(Job(task="tests.noop"), act)() is False


def test_related_rows_of_the_instance_are_fresh_too():
    job = running_job()
    Progress.objects.create(job=job, updated_at=timezone.now())
    assert job.worker.name == "hand"
    assert job.progress.message == ""
    job.fail()
    assert job.worker is None
    job.retry()
    assert not hasattr(job, "progress")


def test_deferred_columns_stay_deferred():
    job = noop.enqueue()
    deferred = Job.objects.defer("kwargs").get(pk=job.pk)
    assert deferred.cancel() is True
    assert deferred.get_deferred_fields() == {"kwargs"}


@pytest.mark.parametrize("act", ["cancel", "fail"])
def test_reason_is_kept(act):
    job = noop.enqueue()
    getattr(job, act)("Ann said so.")
    assert job.reason == "Ann said so."


@pytest.mark.parametrize("act", ["cancel", "fail"])
def test_reason_that_cannot_be_stored_is_made_storable(act):
    queued, running = noop.enqueue(), running_job()
    for job in (queued, running):
        assert getattr(job, act)("\0\ud800" + "x" * 100_000) is True
        assert job.reason.startswith("\ufffd\ufffdxxx")
        assert len(job.reason) < 2_000


def test_result_by_hand_is_kept():
    job = noop.enqueue()
    assert job.succeed({"answer": [42]}) is True
    assert job.return_value == {"answer": [42]}


@pytest.mark.parametrize(
    "value",
    [math.nan, "\0", "\ud800", object(), {1: 2}, (1,), [math.inf], 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_result_by_hand_that_is_not_json_is_refused(value):
    job = noop.enqueue()
    with pytest.raises(ValueError):
        job.succeed(value)
    assert fields_of(job)["status"] == "READY"


def test_result_by_hand_that_is_too_large_is_refused():
    job = noop.enqueue()
    with (
        override_settings(PGJOBS={"MAX_RESULT_BYTES": 10}),
        pytest.raises(ValueError, match="is 11 bytes of JSON, more than the 10"),
    ):
        job.succeed("123456789")
    assert job.succeed("12345678")


def test_success_by_hand_forgets_the_reason_of_a_failed_attempt():
    hand, job = Hand(), noop.enqueue()
    hand.set_back(hand.claim_one(), "RETRY", "OSError: later", delay=60)
    assert job.succeed() is True
    assert job.reason == ""


def test_cancelling_twice_keeps_the_first_request():
    job = running_job()
    assert job.cancel("first") is True
    requested_at = job.cancel_requested_at
    assert job.cancel("second") is False
    assert (job.cancel_requested_at, job.reason) == (requested_at, "first")


def test_running_job_that_is_to_be_cancelled_can_still_be_ended_by_hand():
    job = running_job()
    job.cancel()
    assert job.fail("enough") is True
    assert (job.status, job.reason) == ("FAILED", "enough")


# The life of a job


def test_retry_starts_a_life_without_a_past():
    hand, job = Hand(), noop.using(max_attempts=1).enqueue()
    claimed = hand.claim_one()
    job.cancel()
    hand.set_back(claimed, "FAIL", "Broken.")
    Job.objects.update(crashes=1)
    token = claimed.lease_token
    assert job.retry() is True
    row = fields_of(job)
    assert (row["attempts"], row["failures"], row["crashes"]) == (0, 0, 0)
    assert row["cancel_requested_at"] is None
    assert row["started_at"] is row["last_attempted_at"] is row["finished_at"] is None
    assert (row["life"], row["lease_token"]) == (2, token)
    assert hand.claim_one().lease_token > token


def test_retry_of_a_job_that_is_not_due_waits_for_its_time():
    job = noop.using(run_after=hours(1)).enqueue()
    run_after = job.run_after
    assert job.cancel() and job.retry()
    assert (job.status, job.run_after) == ("SCHEDULED", run_after)


def test_retry_forgets_the_progress_but_keeps_the_attempts():
    job = finished_job("FAILED")
    other = finished_job("FAILED")
    for each in (job, other):
        Progress.objects.create(job=each, updated_at=timezone.now())
    assert job.retry() is True
    assert list(Progress.objects.values_list("job_id", flat=True)) == [other.pk]
    assert attempts_of(job) == [(1, 1, "FAILED", "Broken.")] or attempts_of(job)


def test_attempts_of_a_later_life_stand_beside_those_of_the_earlier():
    hand, job = Hand(), noop.enqueue()
    for message in ("first", "second"):
        hand.set_back(hand.claim_one(), "FAIL", message, message=message)
        job.retry()
    assert attempts_of(job) == [(1, 1, "FAILED", "first"), (2, 1, "FAILED", "second")]


def test_failing_a_running_job_by_hand_stores_the_attempt():
    job = running_job(hand=Hand("lathe"))
    job.fail("Takes too long.")
    assert attempts_of(job) == [(1, 1, "FAILED", "Takes too long.")]
    attempt = Attempt.objects.get()
    assert attempt.worker_name == "lathe"
    assert attempt.started_at == job.last_attempted_at
    assert attempt.finished_at >= attempt.started_at


def test_failing_a_job_whose_worker_is_gone_stores_what_is_known():
    hand = Hand()
    job = running_job(hand=hand)
    hand.vanish()
    assert job.fail() is True
    assert Attempt.objects.get().worker_name == f"worker {hand.id}"


@pytest.mark.parametrize("status", QUEUED)
def test_failing_a_queued_job_by_hand_is_no_attempt(status):
    job = job_that_is(status)
    job.fail()
    assert attempts_of(job) == []


@pytest.mark.parametrize("act", ["fail", "succeed"])
def test_old_owner_of_a_job_that_was_ended_by_hand_changes_nothing(act):
    hand, job = Hand(), noop.enqueue()
    claimed = hand.claim_one()
    getattr(job, act)()
    before = fields_of(job)
    assert hand.succeed(claimed, "1") is False
    assert hand.set_back(claimed, "RETRY") is None
    assert fields_of(job) == before


def test_job_that_was_asked_to_stop_can_still_succeed():
    hand, job = Hand(), noop.enqueue()
    claimed = hand.claim_one()
    job.cancel()
    assert hand.succeed(claimed, "1") is True
    assert fields_of(job)["status"] == "SUCCESSFUL"


# Sets of jobs


@pytest.mark.parametrize("act", ACTS)
def test_act_on_a_set_says_how_many_it_changed_and_skipped(act):
    jobs = of_each_status()
    before = {status: fields_of(job) for status, job in jobs.items()}
    result = getattr(Job.objects.all(), act)()
    expected = {status: EFFECTS.get((act, status), {}) for status in jobs}
    assert {
        status: effect(before[status], fields_of(job)) for status, job in jobs.items()
    } == expected
    changed = sum(map(bool, expected.values()))
    assert result == Changed(changed=changed, skipped=7 - changed)
    assert result.changed + result.skipped == 7


def test_act_on_a_set_leaves_others_alone():
    mail = [noop.using(queue_name="mail").enqueue() for _ in range(2)]
    other = noop.enqueue()
    assert Job.objects.ready().filter(queue_name="mail").cancel() == (2, 0)
    assert [fields_of(job)["status"] for job in mail] == ["CANCELLED"] * 2
    assert fields_of(other)["status"] == "READY"


def test_act_on_a_slice_changes_only_the_slice():
    jobs = [noop.using(priority=number).enqueue() for number in range(5)]
    assert Job.objects.order_by("-priority")[:2].cancel() == (2, 0)
    ready = Job.objects.ready().order_by("pk")
    assert list(ready) == jobs[:3]
    assert Job.objects.order_by("pk")[1:2].fail() == (1, 0)
    assert Job.objects.failed().get() == jobs[1]


def test_act_through_a_join_counts_each_job_once():
    hand = Hand()
    job = noop.using(max_attempts=3).enqueue()
    for verdict in ("RETRY", "RETRY", "FAIL"):
        hand.set_back(hand.claim_one(), verdict)
    joined = Job.objects.filter(attempts_made__outcome="FAILED")
    assert joined.count() == 3
    assert joined[:3].cancel() == (0, 1)
    assert joined.retry() == (1, 0)
    job.refresh_from_db()
    assert (job.status, job.life) == ("READY", 2)


@pytest.mark.parametrize(
    "jobs",
    [
        lambda: Job.objects.none(),
        lambda: Job.objects.filter(pk=0),
        lambda: Job.objects.all()[:0],
        lambda: Job.objects.filter(pk__in=[]),
    ],
)
@pytest.mark.parametrize("act", ACTS)
def test_act_on_nothing_changes_nothing(act, jobs):
    noop.enqueue()
    assert getattr(jobs(), act)() == (0, 0)


def test_act_works_on_whatever_the_queryset_looks_like():
    for jobs in (
        Job.objects.order_by("-priority", "task"),
        Job.objects.values("task"),
        Job.objects.defer("kwargs"),
        Job.objects.only("pk").distinct(),
        Job.objects.select_related("worker"),
        Job.objects.filter(pk=0) | Job.objects.all(),
        Job.objects.filter(pk__in=Job.objects.values("pk")),
        Worker.objects.create(**worker_columns()).jobs.all() | Job.objects.all(),
        Job.objects.filter(pk=0).union(Job.objects.all()),
    ):
        job = noop.enqueue()
        assert jobs.cancel().changed == 1
        assert fields_of(job)["status"] == "CANCELLED"


def worker_columns() -> dict:
    row = Worker.objects.filter(pk=Hand().id).values().get()
    del row["id"]
    return row


@pytest.mark.parametrize("act", ACTS)
def test_large_sets_are_changed_in_batches(act, monkeypatch):
    monkeypatch.setattr(acts, "BATCH", 2)
    status = {"retry": "FAILED", "run_now": "SCHEDULED"}.get(act, "READY")
    jobs = [job_that_is(status) for _ in range(5)]
    same_status = Job.objects.filter(status=status)
    assert getattr(same_status, act)() == (5, 0)
    assert {fields_of(job)["status"] for job in jobs} == {
        EFFECTS[act, status]["status"]
    }
    assert getattr(Job.objects.order_by("pk")[:3], act)() == (0, 3)


def test_small_set_costs_two_queries(django_assert_num_queries):
    for _ in range(10):
        noop.enqueue()
    with django_assert_num_queries(2):
        Job.objects.all().cancel()


# Signals


@pytest.fixture
def finished():
    """The jobs that job_finished announced, with their status."""
    told = []

    def receiver(job, **named):
        told.append((job.pk, job.status))

    signals.job_finished.connect(receiver)
    yield told
    signals.job_finished.disconnect(receiver)


@pytest.mark.parametrize("act", ACTS)
def test_end_of_a_job_is_announced_once(
    act, finished, django_capture_on_commit_callbacks
):
    jobs = of_each_status()
    finished.clear()
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(2):
            getattr(Job.objects.all(), act)()
    ended = [
        (job.pk, EFFECTS[act, status]["status"])
        for status, job in jobs.items()
        if EFFECTS.get((act, status), {}).get("finished_at")
    ]
    assert finished == ended


@pytest.mark.django_db(transaction=True)
def test_act_that_is_rolled_back_is_not_announced(finished):
    job = noop.enqueue()
    with transaction.atomic():
        job.cancel()
        transaction.set_rollback(True)
    assert finished == []
    job.cancel()
    assert finished == [(job.pk, "CANCELLED")]


# Two at a time. The first has done its part but not committed when the second comes.

transactional = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hand(transactional_db):
    return Hand()


@transactional
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed"])
def test_act_that_meets_a_claim_acts_on_the_running_job(act, hand):
    job = noop.enqueue()
    claimed, changed = overlapping(hand.claim_one, getattr(job, act))
    assert changed is True
    row = fields_of(job)
    if act == "cancel":
        assert (row["status"], row["worker_id"]) == ("RUNNING", hand.id)
        assert row["cancel_requested_at"] is not None
    else:
        assert (row["finished_at"] is None, row["worker_id"]) == (False, None)
        assert row["lease_token"] > claimed.lease_token
    assert row["attempts"] == 1
    assert hand.succeed(claimed) is (act == "cancel")


@transactional
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed"])
def test_claim_skips_what_an_act_is_about_to_end(act, hand):
    job = noop.enqueue()
    changed, claimed = overlapping(getattr(job, act), hand.claim)
    assert (changed, claimed) == (True, [])
    assert hand.claim() == []
    assert fields_of(job)["attempts"] == 0


@transactional
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed"])
def test_act_that_comes_after_the_success_changes_nothing(act, hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    recorded, changed = overlapping(
        lambda: hand.succeed(claimed, "1"), getattr(job, act)
    )
    assert (recorded, changed) == (True, False)
    row = fields_of(job)
    assert (row["status"], row["return_value"]) == ("SUCCESSFUL", 1)
    assert (row["cancel_requested_at"], row["reason"]) == (None, "")


@transactional
@pytest.mark.parametrize("act", ["fail", "succeed"])
def test_success_that_comes_after_the_act_changes_nothing(act, hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    changed, recorded = overlapping(
        getattr(job, act), lambda: hand.succeed(claimed, "1")
    )
    assert (changed, recorded) == (True, False)
    assert fields_of(job)["return_value"] is None


@transactional
def test_cancel_that_comes_before_the_retry_wins(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    changed, status = overlapping(
        job.cancel, lambda: hand.set_back(claimed, "RETRY", "later", delay=60)
    )
    assert (changed, status) == (True, "CANCELLED")
    assert fields_of(job)["reason"] == "Cancelled."


@transactional
def test_cancel_that_comes_after_the_retry_cancels_the_queued_job(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    status, changed = overlapping(
        lambda: hand.set_back(claimed, "RETRY", "later", delay=60), job.cancel
    )
    assert (status, changed) == ("SCHEDULED", True)
    assert fields_of(job)["status"] == "CANCELLED"


@transactional
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed"])
def test_act_that_meets_a_rescue_acts_on_the_queued_job(act, hand):
    job = noop.enqueue()
    dead = Hand("dead")
    dead.claim_one()
    dead.vanish()
    rescued, changed = overlapping(hand.rescue, getattr(job, act))
    assert [each.id for each in rescued] == [job.pk]
    assert changed is True
    row = fields_of(job)
    assert (row["finished_at"] is None, row["crashes"]) == (False, 1)


@transactional
@pytest.mark.parametrize("act", ["cancel", "fail", "succeed"])
def test_rescue_skips_what_an_act_has_locked(act, hand):
    job = noop.enqueue()
    dead = Hand("dead")
    dead.claim_one()
    dead.vanish()
    changed, rescued = overlapping(getattr(job, act), hand.rescue)
    assert (changed, rescued) == (True, [])
    again = [each.status for each in hand.rescue()]
    assert again == (["CANCELLED"] if act == "cancel" else [])


@transactional
@pytest.mark.parametrize("act", ACTS)
def test_only_one_of_two_acts_at_the_same_time_changes_the_job(act):
    status = {"retry": "FAILED", "run_now": "SCHEDULED"}.get(act, "RUNNING")
    job = job_that_is(status)
    twin = Job.objects.get(pk=job.pk)
    assert overlapping(getattr(job, act), getattr(twin, act)) == (True, False)
    assert fields_of(job)["life"] == (2 if act == "retry" else 1)


@transactional
@pytest.mark.parametrize("act", ACTS)
def test_act_on_a_row_that_is_being_deleted_changes_nothing(act):
    status = {"retry": "FAILED", "run_now": "SCHEDULED"}.get(act, "READY")
    job = job_that_is(status)
    _, changed = overlapping(Job.objects.all().delete, getattr(job, act))
    assert changed is False


@transactional
def test_retry_saves_a_job_from_being_pruned():
    job = job_that_is("FAILED", finished_at=timezone.now() - hours(2))
    _, pruned = overlapping(job.retry, lambda: upkeep.prune(execute, {"FAILED": 3600}))
    assert pruned == 0
    assert fields_of(job)["status"] == "READY"


@transactional
@pytest.mark.parametrize("act", ["run_now", "cancel", "fail", "succeed"])
def test_promotion_skips_what_an_act_has_locked(act):
    job = job_that_is("SCHEDULED", run_after=timezone.now())
    changed, promoted = overlapping(getattr(job, act), lambda: upkeep.promote(execute))
    assert (changed, promoted.number) == (True, 0)


@transactional
def test_act_that_is_rolled_back_changed_nothing(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    before = fields_of(job)
    with transaction.atomic():
        assert job.fail()
        transaction.set_rollback(True)
    assert fields_of(job) == before
    assert hand.succeed(claimed) is True


def lock_in_order(ids: list[int]) -> None:
    with session() as other:
        other.execute(
            "SELECT id FROM pgjobs_job WHERE id = ANY (%(ids)s) ORDER BY id FOR UPDATE",
            {"ids": ids},
        )


def record_successes(hand: Hand, jobs: list[ClaimedJob]) -> None:
    with transaction.atomic():
        # As on the loop's own connection, whatever the size of the table.
        execute("SET LOCAL enable_seqscan = off")
        execute("SET LOCAL enable_bitmapscan = off")
        execute("SET LOCAL enable_hashjoin = off")
        execute("SET LOCAL enable_mergejoin = off")
        hand.record_and_claim(
            *(recording.Success(job.id, job.lease_token, None) for job in jobs)
        )


def unsuccessful(jobs: list[ClaimedJob]) -> list[recording.Unsuccessful]:
    return [recording.Unsuccessful(job.id, job.lease_token, "FAIL", "") for job in jobs]


@transactional
@pytest.mark.parametrize("act", [*ACTS, "record successes", "record unsuccessful"])
def test_jobs_are_locked_by_id_so_that_two_never_wait_for_each_other(act, hand):
    status = {"retry": "FAILED", "run_now": "SCHEDULED"}.get(act, "READY")
    first, second = (job_that_is(status) for _ in range(2))
    claimed = hand.claim(2)
    # The first row moves behind the second, where a plain scan comes to it last.
    Job.objects.filter(pk=first.pk).update(priority=1)
    change = {
        "record successes": lambda: record_successes(hand, claimed[::-1]),
        "record unsuccessful": lambda: hand.record(*unsuccessful(claimed[::-1])),
    }.get(act) or getattr(Job.objects.all(), act, None)
    with ExitStack() as stack:
        holder = stack.enter_context(session())
        holder.begin()
        lock = "SELECT id FROM pgjobs_job WHERE id = %(id)s FOR UPDATE"
        holder.execute(lock, {"id": first.pk})
        orderly = stack.enter_context(in_thread(lock_in_order, ids(first, second)))
        wait_for(lambda: waiting(holder) == 1, "the orderly one waits for the first")
        other = stack.enter_context(in_thread(change))
        wait_for(lambda: waiting(holder) == 2, "both wait")
        holder.commit()
        orderly.result(timeout=60)
        other.result(timeout=60)
    assert all(fields_of(job)["status"] != status for job in (first, second))


def ids(*jobs: Job) -> list[int]:
    return [job.pk for job in jobs]


def waiting(other: Session) -> int:
    """Return how many sessions wait for a lock."""
    return other.execute(WAITING_SESSIONS)[0][0]


# Tables, so that this module cannot silently fall behind the statuses


def test_every_status_is_tested():
    assert set(QUEUED) | set(FINISHED) | {Status.RUNNING} == set(Status)
    assert {status for _, status in EFFECTS} == set(Status.values)
    assert {act for act, _ in EFFECTS} == set(ACTS)
