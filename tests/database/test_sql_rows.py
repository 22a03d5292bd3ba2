"""The worker's statements, one at a time: claim, record, rescue, promote, prune."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

from pgjobs.models import Attempt, Job, Progress, Status, Worker
from pgjobs.queue import claiming, recording, upkeep
from pgjobs.queue.recording import Success, Unsuccessful
from pgjobs.queue.upkeep import LOCK_CLASS
from tests.actors import (
    Hand,
    attempts_of,
    execute,
    fields_of,
    hours,
    job_that_is,
    overlapping,
    running_job,
    session,
)
from tests.processes import wait_for
from tests.tasks import add, noop

pytestmark = pytest.mark.django_db
transactional = pytest.mark.django_db(transaction=True)


@pytest.fixture
def hand(db):
    return Hand()


def enqueue(number: int = 1, **options) -> list[int]:
    """Enqueue so many jobs; return their ids."""
    return [noop.using(**options).enqueue().pk for _ in range(number)]


def ids(jobs) -> list[int]:
    return [job.id for job in jobs]


def change(*ids: int, **columns) -> None:
    if columns:
        assert Job.objects.filter(pk__in=ids).update(**columns) == len(ids)


# Claim


def test_claim_goes_by_priority_then_by_age(hand):
    (low,) = enqueue(priority=-1)
    first, second = enqueue(2)
    (other_queue,) = enqueue(priority=5, queue_name="other")
    (high,) = enqueue(priority=9)
    assert ids(hand.claim(4)) == [high, other_queue, first, second]
    assert ids(hand.claim(4)) == [low]


def test_claim_takes_no_more_than_the_limit(hand):
    for queue in ("a", "b", "c"):
        enqueue(3, queue_name=queue)
    assert hand.claim(0) == []
    assert [len(hand.claim(limit)) for limit in (1, 2, 5, 10)] == [1, 2, 5, 1]


@pytest.mark.parametrize("off", ["hashjoin", "mergejoin", "nestloop", "material"])
def test_claim_takes_no_more_than_the_limit_whatever_the_plan(hand, off):
    for queue in ("a", "b"):
        enqueue(20, queue_name=queue)
    execute(f"SET LOCAL enable_{off} = off")
    execute("SET LOCAL enable_seqscan = off")
    execute("SET LOCAL jit = off")  # it would compile for what seems so costly
    while claimed := hand.claim(3):
        assert len(claimed) <= 3
        assert ids(claimed) == sorted(ids(claimed))
    assert Job.objects.running().count() == 40


def test_claim_takes_only_what_is_ready(hand):
    jobs = {status: job_that_is(status) for status in Status.values}
    claimed = hand.record_and_claim(limit=10, is_idle=True).jobs
    assert ids(claimed) == [jobs["READY"].pk]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "abc"),
        ({"queues": ["a"]}, "a"),
        ({"queues": ["c", "a", "nowhere"]}, "ac"),
        ({"queues": []}, ""),
        ({"queues": ["nowhere"]}, ""),
        ({"excluded": ["b"]}, "ac"),
        ({"excluded": ["nowhere"]}, "abc"),
        ({"queues": ["a", "b"], "excluded": ["b"]}, "a"),
        ({"excluded": ["a", "b", "c"]}, ""),
    ],
)
def test_claim_serves_only_its_queues(hand, options, expected):
    for queue in "abc":
        enqueue(queue_name=queue)
    claimed = hand.claim(10, **options)
    assert "".join(job.queue_name for job in claimed) == expected


def test_claim_makes_the_job_the_workers(hand):
    job = add.using(max_attempts=7, priority=3).enqueue(1)
    before = fields_of(job)
    claimed = hand.claim_one()
    row = fields_of(job)
    changed = {name for name in row if row[name] != before[name]}
    assert changed == {
        "status",
        "attempts",
        "lease_token",
        "worker_id",
        "started_at",
        "last_attempted_at",
    }
    assert (row["status"], row["worker_id"], row["attempts"]) == ("RUNNING", hand.id, 1)
    assert claimed == claiming.ClaimedJob(
        id=job.pk,
        task="tests.add",
        args="[]",
        kwargs='{"a": 1, "b": 1}',
        queue_name="default",
        priority=3,
        attempt=1,
        failures=0,
        max_attempts=7,
        crashes=0,
        max_crashes=3,
        timeout=None,
        life=1,
        lease_token=row["lease_token"],
        enqueued_at=job.enqueued_at,
        is_keyed=False,
        has_dependencies=False,
        turn=row["turn"],
        meta=None,
        waited=claimed.waited,
    )
    assert abs(claimed.waited) < 60  # the claim began with the transaction


def test_each_claim_has_a_token_of_its_own(hand):
    enqueue(3)
    tokens = []
    for _ in range(3):
        for job in hand.claim(3):
            tokens.append(job.lease_token)
            hand.set_back(job, "SNOOZE")
    assert len(set(tokens)) == 9
    assert max(tokens[:3]) < min(tokens[3:6]) <= max(tokens[3:6]) < min(tokens[6:])


def test_later_attempt_keeps_when_the_job_was_first_started(hand):
    job = noop.enqueue()
    hand.set_back(hand.claim_one(), "RETRY")
    first = fields_of(job)
    hand.claim_one()
    second = fields_of(job)
    assert second["started_at"] == first["started_at"]
    assert second["last_attempted_at"] > first["last_attempted_at"]
    assert second["attempts"] == 2


def test_row_that_python_cannot_read_does_not_stop_the_claim(hand):
    execute(
        "INSERT INTO pgjobs_job (task, kwargs) VALUES"
        " ('tests.noop', ('{\"a\": ' || repeat('9', 5000) || '}')::jsonb),"
        " ('tests.noop', ('{\"a\": ' || repeat('[', 3000) || repeat(']', 3000) || '}')"
        "::jsonb)"
    )
    enqueue()
    assert len(hand.claim(5)) == 3


def test_manager_claims_for_a_worker(hand):
    low, high = enqueue()[0], enqueue(priority=5, queue_name="mail")[0]
    enqueue(queue_name="other")
    jobs = Job.objects.claim(hand.row, limit=5, queues=["mail", "default"])
    assert ids(jobs) == [high, low]
    assert [job.status for job in jobs] == ["RUNNING"] * 2
    assert Job.objects.claim(hand.row, queues=["mail"]) == []
    assert len(Job.objects.claim(hand.row)) == 1


@transactional
def test_two_claims_at_the_same_time_share_nothing(hand):
    expected = enqueue(5)
    first, second = overlapping(lambda: hand.claim(3), lambda: hand.claim(3))
    assert ids(first) == expected[:3]
    assert ids(second) == expected[3:]


@transactional
def test_claim_says_that_others_hold_ready_jobs(hand):
    enqueue(2)
    first, second = overlapping(
        lambda: hand.record_and_claim(limit=1),
        lambda: hand.record_and_claim(limit=5, is_idle=True),
    )
    assert (first.met_locked, len(first.jobs)) == (False, 1)
    assert (second.met_locked, len(second.jobs)) == (True, 1)
    assert hand.record_and_claim(limit=1).met_locked is False


@transactional
def test_many_workers_claim_every_job_once():
    expected = enqueue(40) + enqueue(40, queue_name="other")
    hands = [Hand(f"hand {number}") for number in range(4)]

    def work_through(hand: Hand) -> list[int]:
        taken = []
        try:
            while claimed := hand.claim(3):
                taken += ids(claimed)
        finally:
            connections.close_all()
        return taken

    with ThreadPoolExecutor(len(hands)) as pool:
        taken = [id for each in pool.map(work_through, hands) for id in each]
    rest = ids(hands[0].claim(100))  # skipped while another worker looked at them
    assert Counter(taken + rest) == Counter(expected)
    assert set(Job.objects.values_list("attempts", flat=True)) == {1}


def test_claim_returns_when_the_next_job_is_due(hand):
    assert hand.record_and_claim(limit=1).next_due is None
    enqueue(run_after=hours(2))
    enqueue(run_after=hours(1))
    assert 3_590 < hand.record_and_claim().next_due <= 3_600
    change(*enqueue(run_after=hours(1)), run_after=timezone.now() - hours(1))
    assert -3_610 < hand.record_and_claim().next_due <= -3_600


# Claim of last chances: jobs that must not crash once more


def last_chances(number: int = 1, **options) -> list[int]:
    made = enqueue(number, **options)
    change(*made, crashes=2, attempts=2)
    return made


def test_claim_ends_before_a_last_chance(hand):
    good = enqueue(2)
    (last_chance,) = last_chances()
    later = enqueue(2)
    brought = hand.record_and_claim(limit=5, is_idle=True)
    assert (ids(brought.jobs), brought.has_more) == (good, True)
    brought = hand.record_and_claim(limit=5)
    assert (ids(brought.jobs), brought.met_last_chance) == ([], True)
    brought = hand.record_and_claim(limit=5, is_idle=True)
    assert (ids(brought.jobs), brought.met_last_chance) == ([last_chance], True)
    assert brought.jobs[0].is_last_chance
    brought = hand.record_and_claim(limit=5, is_idle=True)
    assert (ids(brought.jobs), brought.met_last_chance) == (later, False)


def test_last_chance_is_left_until_the_worker_is_idle(hand):
    (last_chance,) = last_chances(priority=5)
    enqueue(2)
    brought = hand.record_and_claim(limit=5, is_idle=False)
    assert (brought.jobs, brought.met_last_chance) == ([], True)
    assert ids(hand.claim(5, is_idle=True)) == [last_chance]


def test_last_chances_are_claimed_one_by_one(hand):
    made = last_chances(3)
    assert [ids(hand.claim(5)) for _ in range(3)] == [[each] for each in made]


def test_job_that_may_crash_only_once_has_its_last_chance_from_the_start(hand):
    first, second = enqueue(2, max_crashes=1)
    assert ids(hand.claim(5)) == [first]
    assert ids(hand.claim(5)) == [second]


def test_last_chance_in_a_queue_that_is_not_served_holds_up_no_job(hand):
    last_chances(queue_name="other", priority=5)
    good = enqueue(2)
    brought = hand.record_and_claim(limit=5, queues=["default"])
    assert (ids(brought.jobs), brought.met_last_chance) == (good, False)


def test_success_and_a_last_chance_fit_in_one_statement(hand):
    (good,) = enqueue(priority=1)
    claimed = hand.claim_one()
    (last_chance,) = last_chances()
    brought = hand.record_and_claim(
        Success(good, claimed.lease_token, None), limit=1, is_idle=True
    )
    assert brought.recorded == {claimed.lease_token}
    assert ids(brought.jobs) == [last_chance]


# Record a success


def test_success_ends_the_job(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    before = fields_of(job)
    assert hand.succeed(claimed, '{"a": [1, null]}') is True
    row = fields_of(job)
    changed = {name for name in row if row[name] != before[name]}
    assert changed == {"status", "worker_id", "finished_at", "return_value"}
    assert (row["status"], row["return_value"]) == ("SUCCESSFUL", {"a": [1, None]})
    assert row["finished_at"] >= row["last_attempted_at"]
    assert attempts_of(job) == []


def test_success_after_failed_attempts_forgets_their_reason(hand):
    job = noop.enqueue()
    hand.set_back(hand.claim_one(), "RETRY", "OSError: no luck")
    assert fields_of(job)["reason"] == "OSError: no luck"
    hand.succeed(hand.claim_one())
    assert fields_of(job)["reason"] == ""


def test_success_without_result_has_none(hand):
    job = noop.enqueue()
    hand.succeed(hand.claim_one(), None)
    assert fields_of(job)["return_value"] is None


def test_several_successes_and_claims_are_one_statement(hand):
    enqueue(3)
    claimed = hand.claim(3)
    more = enqueue(2)
    brought = hand.record_and_claim(
        *(Success(job.id, job.lease_token, "1") for job in claimed), limit=5
    )
    assert brought.recorded == {job.lease_token for job in claimed}
    assert ids(brought.jobs) == more


# What a worker no longer owns


def outcomes_of(hand: Hand, job) -> dict[str, object]:
    """Try to record every outcome; return what counted."""
    tried = {"SUCCESS": hand.succeed(job, '"stale"') or None}
    for verdict in ("RETRY", "FAIL", "SNOOZE", "RELEASE", "UNKNOWN", "CANCEL"):
        tried[verdict] = hand.set_back(job, verdict, "stale")
    return {verdict: each for verdict, each in tried.items() if each is not None}


def later_claimed(hand, claimed):
    hand.set_back(claimed, "RELEASE")
    return Hand("another").claim_one()


def claimed_again(hand, claimed):
    hand.set_back(claimed, "RELEASE")
    return hand.claim_one()


def test_of_two_outcomes_of_one_job_that_of_the_present_claim_counts(hand):
    (pk,) = enqueue()
    stale = hand.claim_one()
    current = claimed_again(hand, stale)
    brought = hand.record_and_claim(
        Success(pk, stale.lease_token, '"stale"'),
        Success(pk, current.lease_token, '"current"'),
    )
    assert brought.recorded == {current.lease_token}
    assert Job.objects.get(pk=pk).return_value == "current"


def rescued(hand, claimed):
    hand.vanish()
    assert len(Hand("rescuer").rescue()) == 1


def retried_in_a_new_life(hand, claimed):
    hand.set_back(claimed, "FAIL")
    assert Job.objects.get().retry()
    return hand.claim_one()


def ended_by_hand(hand, claimed):
    assert Job.objects.get().fail()


def succeeded_before(hand, claimed):
    assert hand.succeed(claimed)


@pytest.mark.parametrize(
    "lost_by",
    [
        later_claimed,
        claimed_again,
        rescued,
        retried_in_a_new_life,
        ended_by_hand,
        succeeded_before,
    ],
)
def test_outcome_of_a_lease_that_is_over_changes_nothing(hand, lost_by):
    job = noop.enqueue()
    claimed = hand.claim_one()
    lost_by(hand, claimed)
    before, attempts = fields_of(job), attempts_of(job)
    assert outcomes_of(hand, claimed) == {}
    assert (fields_of(job), attempts_of(job)) == (before, attempts)


def test_outcome_of_another_workers_job_changes_nothing(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    before = fields_of(job)
    assert outcomes_of(Hand("thief"), claimed) == {}
    assert fields_of(job) == before


def test_outcome_of_a_job_that_is_gone_changes_nothing(hand):
    noop.enqueue()
    claimed = hand.claim_one()
    Job.objects.all().delete()
    assert outcomes_of(hand, claimed) == {}


def test_outcomes_that_count_differ_from_those_that_do_not(hand):
    enqueue(3)
    first, lost, last = hand.claim(3)
    Job.objects.get(pk=lost.id).fail()
    recorded = hand.record(
        *(
            Unsuccessful(job.id, job.lease_token, "RETRY", "")
            for job in (last, lost, first)
        )
    )
    assert {each.lease_token for each in recorded} == {
        first.lease_token,
        last.lease_token,
    }


# Record an attempt that did not succeed


FAILED = {"status": "FAILED", "failures": 1}
RETRIED = {"status": "READY", "failures": 1}
CANCELLED = {"status": "CANCELLED", "failures": 0}
QUEUED = {"status": "READY", "failures": 0}
LATER = {"status": "SCHEDULED"}
SETBACKS = [
    # verdict, seconds, state of the job before, what becomes of it, attempt's outcome
    ("RETRY", 0, {}, RETRIED, "FAILED"),
    ("RETRY", 60, {}, RETRIED | LATER, "FAILED"),
    ("RETRY", 60, {"max_attempts": 1}, FAILED, "FAILED"),
    ("RETRY", 0, {"attempts": 3, "failures": 2}, FAILED | {"failures": 3}, "FAILED"),
    ("RETRY", 0, {"attempts": 9, "failures": 1}, RETRIED | {"failures": 2}, "FAILED"),
    ("FAIL", 0, {}, FAILED, "FAILED"),
    ("FAIL", 60, {}, FAILED, "FAILED"),
    ("SNOOZE", 0, {}, QUEUED, "SNOOZED"),
    ("SNOOZE", 60, {}, QUEUED | LATER, "SNOOZED"),
    ("SNOOZE", 60, {"max_attempts": 1}, QUEUED | LATER, "SNOOZED"),
    ("RELEASE", 0, {}, QUEUED, "RELEASED"),
    ("RELEASE", 60, {"max_attempts": 1}, QUEUED | LATER, "RELEASED"),
    ("UNKNOWN", 10, {}, QUEUED | LATER, "RELEASED"),
    ("CANCEL", 0, {}, CANCELLED, "CANCELLED"),
]


@pytest.mark.parametrize(("verdict", "delay", "state", "expected", "noted"), SETBACKS)
def test_verdict_decides_what_becomes_of_the_job(
    hand, verdict, delay, state, expected, noted
):
    job = noop.enqueue()
    claimed = hand.claim_one()
    change(job.pk, **state)
    before = fields_of(job)
    assert hand.set_back(claimed, verdict, "Why.", delay=delay) == expected["status"]
    row = fields_of(job)
    changed = {name: row[name] for name in row if row[name] != before[name]}
    run_after, finished_at = (
        changed.pop(n, None) for n in ("run_after", "finished_at")
    )
    reason = changed.pop("reason")
    assert reason.split(" Put back since ")[0] == "Why."
    assert changed == {
        "status": expected["status"],
        "worker_id": None,
        **({"failures": expected["failures"]} if noted == "FAILED" else {}),
    }
    assert row["failures"] == expected["failures"]
    if row["status"] == "SCHEDULED":
        seconds = (run_after - timezone.now()).total_seconds()
        assert delay - 5 < seconds <= delay
    elif row["status"] == "READY":  # it says since when the job waits
        assert abs(run_after - timezone.now()) < timedelta(minutes=1)
    else:
        assert run_after is None
    assert (finished_at is not None) is (row["status"] in ("FAILED", "CANCELLED"))
    assert attempts_of(job) == [(1, row["attempts"], noted, "")]


@pytest.mark.parametrize(
    "verdict", ["RETRY", "FAIL", "SNOOZE", "RELEASE", "UNKNOWN", "CANCEL"]
)
def test_failed_attempt_of_a_job_that_is_to_be_cancelled_cancels_it(hand, verdict):
    job = noop.enqueue()
    claimed = hand.claim_one()
    job.cancel("Ann changed her mind.")
    assert hand.set_back(claimed, verdict, "whatever", delay=60) == "CANCELLED"
    row = fields_of(job)
    assert row["reason"] == "Ann changed her mind."
    assert (row["finished_at"] is None, row["run_after"]) == (False, None)


PUT_BACK = "No task. Put back since %s UTC."


def put_back_since(hours_ago: float) -> str:
    since = timezone.now() - hours(hours_ago)
    return PUT_BACK % since.strftime("%Y-%m-%d %H:%M:%S")


def test_unknown_task_is_given_up_once_workers_have_put_it_back_for_long(hand):
    job = noop.enqueue()
    change(job.pk, enqueued_at=timezone.now() - hours(100))
    with override_settings(PGJOBS={"UNKNOWN_TASK_GRACE": 3600}):
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "No task.") == "READY"
        first = fields_of(job)["reason"]
        assert seconds_between(first, put_back_since(0)) < 5
        change(job.pk, reason=(since := put_back_since(0.9)))
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "No task.") == "READY"
        assert fields_of(job)["reason"] == since
        change(job.pk, reason=put_back_since(1))
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "No task.") == "FAILED"
    row = fields_of(job)
    assert (row["reason"], row["failures"], row["attempts"]) == ("No task.", 0, 3)


def seconds_between(*reasons: str) -> float:
    shape = PUT_BACK % "%Y-%m-%d %H:%M:%S"
    one, two = (datetime.strptime(reason, shape) for reason in reasons)
    return abs((one - two).total_seconds())


def test_time_for_which_a_task_is_unknown_begins_anew_once_a_worker_has_known_it(hand):
    job = noop.enqueue()
    change(job.pk, reason=put_back_since(0.5))
    with override_settings(PGJOBS={"UNKNOWN_TASK_GRACE": 60}):
        assert hand.set_back(hand.claim_one(), "RELEASE", "stops") == "READY"
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "No task.") == "READY"


@pytest.mark.parametrize("reason", ["", PUT_BACK % "9999-99-99 99:99:99", "x" * 1000])
def test_reason_that_sql_has_written_does_not_keep_an_unknown_task_for_ever(
    hand, reason
):
    job = noop.enqueue()
    change(job.pk, reason=reason)
    with override_settings(PGJOBS={"UNKNOWN_TASK_GRACE": 3600}):
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "x" * 1000) == "READY"
    with override_settings(PGJOBS={"UNKNOWN_TASK_GRACE": 0}):
        assert hand.set_back(hand.claim_one(), "UNKNOWN", "No task.") == "FAILED"


def test_unknown_task_can_be_given_up_at_once(hand):
    noop.enqueue()
    with override_settings(PGJOBS={"UNKNOWN_TASK_GRACE": 0}):
        assert hand.set_back(hand.claim_one(), "UNKNOWN", delay=10) == "FAILED"


def test_attempt_keeps_what_went_wrong(hand):
    job = noop.enqueue()
    claimed = hand.claim_one()
    hand.set_back(
        claimed,
        "RETRY",
        exception_class="app.Broken",
        message='It broke: "ü" \'\\',
        traceback="Traceback\n  line 1",
    )
    attempt = Attempt.objects.get()
    row = fields_of(job)
    assert (attempt.job_id, attempt.life, attempt.number) == (job.pk, 1, 1)
    assert (attempt.worker_name, attempt.exception_class) == ("hand", "app.Broken")
    assert attempt.message == 'It broke: "ü" \'\\'
    assert attempt.traceback == "Traceback\n  line 1"
    assert attempt.started_at == row["last_attempted_at"]
    assert attempt.finished_at >= attempt.started_at


def test_each_attempt_has_its_row(hand):
    job = noop.using(max_attempts=2).enqueue()
    for verdict in ("SNOOZE", "RETRY", "RELEASE", "RETRY"):
        hand.set_back(hand.claim_one(), verdict)
    assert fields_of(job)["status"] == "FAILED"
    assert [
        (life, number, outcome) for life, number, outcome, _ in attempts_of(job)
    ] == [
        (1, 1, "SNOOZED"),
        (1, 2, "FAILED"),
        (1, 3, "RELEASED"),
        (1, 4, "FAILED"),
    ]


# What became of outcomes whose answer was lost


def test_stored_outcomes_are_recognised_after_a_lost_answer(hand):
    enqueue(4)
    done, failed, later, open_ = hand.claim(4)
    hand.succeed(done)
    hand.set_back(failed, "FAIL")
    hand.set_back(later, "RETRY", delay=60)
    outcomes = [Success(job.id, job.lease_token, None) for job in (done, open_)] + [
        Unsuccessful(job.id, job.lease_token, "FAIL", "") for job in (failed, later)
    ]
    stored = recording.recorded_before(execute, outcomes)
    assert {(each.lease_token, each.status) for each in stored} == {
        (done.lease_token, "SUCCESSFUL"),
        (failed.lease_token, "FAILED"),
        (later.lease_token, "SCHEDULED"),
    }


@pytest.mark.parametrize("lost_by", [rescued, ended_by_hand, claimed_again])
def test_lost_lease_is_not_taken_for_a_stored_outcome(hand, lost_by):
    noop.enqueue()
    claimed = hand.claim_one()
    lost_by(hand, claimed)
    outcome = Success(claimed.id, claimed.lease_token, None)
    if lost_by is not claimed_again:
        assert recording.recorded_before(execute, [outcome]) == []
    assert hand.succeed(claimed) is False


def test_jobs_that_a_worker_owns_unknowingly_are_released(hand):
    enqueue(3)
    known, lost = hand.claim(2)
    Hand("another").claim()
    (release,) = recording.orphans(execute, hand.id, [known.lease_token])
    assert (release.id, release.lease_token) == (lost.id, lost.lease_token)
    assert hand.record(release)[0].status == "READY"
    assert recording.orphans(execute, hand.id, [known.lease_token]) == []
    assert ids(recording.orphans(execute, hand.id, [])) == [known.id]


# Rescue


@pytest.fixture
def dead(db):
    """A worker that has claimed a job."""
    return Hand("dead")


def is_rescued(hand: Hand) -> bool:
    return bool(hand.rescue())


def test_job_of_a_worker_without_a_row_is_rescued(hand, dead):
    job = running_job(hand=dead)
    dead.vanish()
    before = fields_of(job)
    (rescue,) = hand.rescue()
    assert rescue == upkeep.Rescued(job.pk, "tests.noop", "default", "READY", 1)
    row = fields_of(job)
    changed = {name for name in row if row[name] != before[name]}
    changes = {"status", "crashes", "reason", "run_after", "worker_id"}
    assert changed - {"lease_token"} == changes
    assert row["lease_token"] >= before["lease_token"]
    assert row["reason"] == "Worker lost (crash 1 of 3)."
    assert (row["failures"], row["attempts"]) == (0, 1)
    assert attempts_of(job) == [(1, 1, "CRASHED", "Worker lost.")]
    assert Attempt.objects.get().worker_name == f"worker {dead.id}"


def test_job_of_a_worker_whose_lease_ran_out_is_rescued(hand, dead):
    running_job(hand=dead)
    dead.fall_silent(29)
    assert not is_rescued(hand)
    dead.fall_silent(2)
    assert is_rescued(hand)
    assert Attempt.objects.get().worker_name == "dead"


def test_rescuer_counts_only_the_time_in_which_it_lived_itself(hand, dead):
    running_job(hand=dead)
    dead.fall_silent(3600)
    Worker.objects.filter(pk=hand.id).update(
        beating_since=timezone.now() - timedelta(seconds=29)
    )
    assert not is_rescued(hand)
    Worker.objects.filter(pk=hand.id).update(
        beating_since=timezone.now() - timedelta(seconds=31)
    )
    assert is_rescued(hand)


def test_sign_of_life_after_a_pause_starts_the_time_again_in_which_a_worker_lived(hand):
    def beating_since():
        return Worker.objects.get(pk=hand.id).beating_since

    began = beating_since()
    hand.fall_silent(5)  # less than two heartbeats
    hand.beat()
    assert beating_since() == began
    hand.fall_silent(11)
    hand.beat()
    assert beating_since() > began + hours(0.9)


def test_outage_of_the_database_makes_no_worker_look_dead(hand):
    """The first worker to come back gives the others time to come back, too."""
    other = Hand("other", holds_session_lock=True)
    running_job(hand=other)
    for each in (hand, other):
        each.fall_silent(3600)
    hand.beat()
    assert not is_rescued(hand)
    other.beat()
    hand.beat()
    assert not is_rescued(hand)


def test_rescuer_without_a_row_judges_no_living_worker(hand, dead):
    running_job(hand=dead)
    dead.fall_silent(3600)
    hand.vanish()
    assert not is_rescued(hand)


def test_worker_does_not_rescue_its_own_jobs(hand):
    running_job(hand=hand)
    hand.fall_silent(3600)
    assert not is_rescued(hand)
    hand.vanish()
    assert not is_rescued(hand)


@transactional
def test_lost_session_lock_shows_a_crash_before_the_lease_ends(hand):
    dead = Hand("dead", holds_session_lock=True, heartbeat_interval=0.001)
    running_job(hand=dead)
    dead.fall_silent(10)
    with session() as process:
        process.execute(
            "SELECT pg_advisory_lock(%(class)s, %(id)s)",
            {"class": LOCK_CLASS, "id": dead.id},
        )
        assert not is_rescued(hand)
    wait_for(lambda: is_rescued(hand), "the server has ended the session")


@transactional
def test_session_lock_in_another_database_says_nothing_about_a_worker_here(hand):
    """The workers of each database of a server count from 1."""
    dead = Hand("dead", holds_session_lock=True, heartbeat_interval=0.001)
    running_job(hand=dead)
    dead.fall_silent(10)
    with session(dbname="postgres") as elsewhere:
        elsewhere.execute(
            "SELECT pg_advisory_lock(%(class)s, %(id)s)",
            {"class": LOCK_CLASS, "id": dead.id},
        )
        assert is_rescued(hand)


def test_lost_session_lock_counts_only_without_a_sign_of_life(hand):
    alive = Hand("alive", holds_session_lock=True, heartbeat_interval=600)
    running_job(hand=alive)
    assert not is_rescued(hand)


def test_worker_that_never_held_a_session_lock_lives_until_its_lease_ends(hand):
    pooled = Hand("pooled", holds_session_lock=False, heartbeat_interval=0.001)
    running_job(hand=pooled)
    pooled.fall_silent(10)
    assert not is_rescued(hand)


@pytest.mark.parametrize(
    ("state", "status", "reason"),
    [
        ({}, "READY", "Worker lost (crash 1 of 3)."),
        ({"crashes": 1, "attempts": 2}, "READY", "Worker lost (crash 2 of 3)."),
        ({"crashes": 2, "attempts": 3}, "FAILED", "Worker lost (crash 3 of 3)."),
        ({"max_crashes": 1}, "FAILED", "Worker lost (crash 1 of 1)."),
        ({"failures": 1, "max_attempts": 1}, "READY", "Worker lost (crash 1 of 3)."),
    ],
)
def test_job_that_crashed_too_often_fails(hand, dead, state, status, reason):
    job = running_job(hand=dead)
    change(job.pk, **state)
    dead.vanish()
    assert [each.status for each in hand.rescue()] == [status]
    row = fields_of(job)
    assert (row["status"], row["reason"]) == (status, reason)
    assert (row["finished_at"] is not None) is (status == "FAILED")


@pytest.mark.parametrize("crashes", [0, 2])
def test_rescued_job_that_is_to_be_cancelled_is_cancelled(hand, dead, crashes):
    job = running_job(hand=dead)
    change(job.pk, crashes=crashes, attempts=3)
    job.cancel()
    dead.vanish()
    assert [each.status for each in hand.rescue()] == ["CANCELLED"]
    row = fields_of(job)
    assert (row["crashes"], row["finished_at"] is None) == (crashes + 1, False)


def test_rescued_job_counts_no_failure_and_runs_again(hand, dead):
    job = noop.using(max_attempts=1).enqueue()
    dead.claim_one()
    dead.vanish()
    hand.rescue()
    assert hand.set_back(hand.claim_one(), "RETRY") == "FAILED"
    row = fields_of(job)
    assert (row["attempts"], row["failures"], row["crashes"]) == (2, 1, 1)


def test_rescue_takes_all_jobs_of_the_dead_and_none_of_the_living(hand, dead):
    alive = Hand("alive")
    lost = [running_job(hand=dead).pk for _ in range(3)]
    kept = [running_job(hand=alive).pk for _ in range(2)]
    dead.vanish()
    assert sorted(ids(hand.rescue())) == lost
    assert sorted(ids(Job.objects.running())) == kept
    assert hand.rescue() == []


def test_rescue_is_not_starved_by_the_jobs_of_the_living(hand, dead, monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 1)
    alive = Hand("alive")
    for _ in range(3):
        running_job(hand=alive)
    lost = [running_job(hand=dead).pk for _ in range(2)]
    dead.vanish()
    assert [ids(hand.rescue()) for _ in range(3)] == [[lost[0]], [lost[1]], []]


def test_dead_worker_is_buried_once_it_has_no_jobs(hand, dead):
    running_job(hand=dead)
    dead.fall_silent(3600)
    hand.rescue()
    hand.rescue()
    assert list(Worker.objects.values_list("pk", flat=True)) == [hand.id]


@transactional
def test_job_is_rescued_once_however_many_try(hand):
    dead = Hand("dead")
    for _ in range(20):
        running_job(hand=dead)
    dead.fall_silent(3600)

    def rescue(_):
        try:
            return ids(hand.rescue())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        rescued = [id for each in pool.map(rescue, range(8)) for id in each]
    assert len(rescued) == len(set(rescued)) == 20
    assert set(Job.objects.values_list("crashes", flat=True)) == {1}


@transactional
def test_job_that_was_rescued_and_claimed_again_in_between_is_left_alone():
    """That is after a slow rescue has read the job and before it locks the row."""
    dead, other = Hand("dead"), Hand("other")
    running_job(hand=dead)
    dead.fall_silent(3600)

    def rescue_and_claim():
        execute("SELECT pg_advisory_xact_lock(1)")
        assert len(other.rescue()) == 1
        return other.claim_one()

    with session() as slow:
        # Its statement waits in its middle, where it reads the workers.
        slow.execute(
            "CREATE TEMPORARY VIEW pgjobs_worker AS SELECT * FROM pgjobs_worker"
            " WHERE pg_advisory_xact_lock(1) IS NOT NULL"
        )
        rescuer = Hand("slow", execute=slow.execute)
        claimed, rescued = overlapping(rescue_and_claim, rescuer.rescue)
    assert rescued == []
    assert other.succeed(claimed) is True


@transactional
def test_success_that_is_being_recorded_is_not_rescued(hand):
    dead = Hand("dead")
    job = noop.enqueue()
    claimed = dead.claim_one()
    dead.fall_silent(3600)
    recorded, rescued = overlapping(lambda: dead.succeed(claimed), hand.rescue)
    assert (recorded, rescued) == (True, [])
    assert fields_of(job)["crashes"] == 0


# Promote


def test_due_jobs_are_promoted_and_others_wait():
    due = [
        job_that_is("SCHEDULED", run_after=timezone.now() - hours(n)) for n in (0, 1)
    ]
    waiting = job_that_is("SCHEDULED")
    others = [job_that_is(status) for status in ("WAITING", "FAILED", "RUNNING")]
    before = [fields_of(job) for job in (waiting, *others)]
    assert upkeep.promote(execute) == (2, False)
    assert [fields_of(job)["status"] for job in due] == ["READY"] * 2
    assert [fields_of(job) for job in (waiting, *others)] == before
    assert upkeep.promote(execute) == (0, False)


def test_the_longest_overdue_are_promoted_first(monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    jobs = [
        job_that_is("SCHEDULED", run_after=timezone.now() - hours(n)) for n in range(3)
    ]
    assert [upkeep.promote(execute).number for _ in range(3)] == [2, 1, 0]
    assert Job.objects.ready().count() == 3
    Job.objects.update(status="SCHEDULED")
    upkeep.promote(execute)
    assert Job.objects.scheduled().get() == jobs[0]


@transactional
def test_promoted_jobs_wake_listening_workers():
    job_that_is("SCHEDULED", run_after=timezone.now())
    with session() as listener:
        listener.listen("pgjobs")
        upkeep.promote(execute)
        assert listener.heard() == [("pgjobs", "default")]


@transactional
@pytest.mark.parametrize(
    ("act", "heard"),
    [
        (lambda hand, job: hand.set_back(job, "RETRY"), True),
        (lambda hand, job: hand.set_back(job, "RETRY", delay=60), True),
        (lambda hand, job: hand.succeed(job), False),
        (lambda hand, job: hand.set_back(job, "FAIL"), False),
        (lambda hand, job: Job.objects.cancel(), False),
        (lambda hand, job: Job.objects.fail(), False),
    ],
)
def test_only_what_returns_to_the_queue_wakes_workers(act, heard):
    hand = Hand()
    noop.enqueue()
    with session() as listener:
        listener.listen("pgjobs")
        claimed = hand.claim_one()
        assert listener.heard() == []
        act(hand, claimed)
        assert listener.heard() == [("pgjobs", "default")] * heard


@transactional
@pytest.mark.parametrize(
    ("status", "act"), [("FAILED", "retry"), ("SCHEDULED", "run_now")]
)
def test_acts_that_return_a_job_to_the_queue_wake_workers(status, act):
    job = job_that_is(status)
    with session() as listener:
        listener.listen("pgjobs")
        getattr(job, act)()
        assert listener.heard() == [("pgjobs", "default")]


# Prune


def finished_hours_ago(status: str, *ages: float) -> list[Job]:
    return [
        job_that_is(status, finished_at=timezone.now() - hours(age)) for age in ages
    ]


def left() -> set[int]:
    return set(Job.objects.values_list("pk", flat=True))


def test_jobs_are_pruned_by_the_age_of_their_end_and_by_status():
    young, _old = finished_hours_ago("SUCCESSFUL", 1, 3)
    young_cancelled, _old_cancelled = finished_hours_ago("CANCELLED", 9, 11)
    failed = finished_hours_ago("FAILED", 9999)
    ages = {"SUCCESSFUL": 2 * 3600, "CANCELLED": 10 * 3600, "FAILED": None}
    assert upkeep.prune(execute, ages) == 2
    assert left() == {young.pk, young_cancelled.pk, failed[0].pk}
    assert upkeep.prune(execute, ages) == 0


@pytest.mark.parametrize("status", ["READY", "SCHEDULED", "WAITING", "RUNNING"])
def test_unfinished_jobs_are_never_pruned(status):
    job_that_is(status, enqueued_at=timezone.now() - hours(99_999))
    assert upkeep.prune(execute, dict.fromkeys(Status.values, 0.0)) == 0


def test_nothing_to_prune_is_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        assert upkeep.prune(execute, {"FAILED": None}) == 0
        assert upkeep.prune(execute, {}) == 0


def test_pruning_goes_in_batches_oldest_first(monkeypatch):
    monkeypatch.setattr(upkeep, "BATCH", 2)
    jobs = finished_hours_ago("FAILED", 2, 4, 3)
    pruned = upkeep.prune_slice(execute, "FAILED", 3600)
    assert (pruned.number, pruned.has_more) == (2, True)
    assert left() == {jobs[0].pk}
    pruned = upkeep.prune_slice(execute, "FAILED", 3600, pruned.position)
    assert (pruned.number, pruned.has_more) == (1, False)


def test_pruned_job_takes_its_attempts_and_progress_along():
    job, other = finished_hours_ago("FAILED", 2, 0)
    for each in (job, other):
        Progress.objects.create(job=each, updated_at=timezone.now())
    assert Attempt.objects.count() == 2
    upkeep.prune(execute, {"FAILED": 3600})
    assert Attempt.objects.get().job_id == other.pk
    assert Progress.objects.get().pk == other.pk


@transactional
def test_pruning_skips_what_others_have_locked():
    locked, _free = finished_hours_ago("FAILED", 2, 2)

    def lock():
        Job.objects.select_for_update().get(pk=locked.pk)

    _, pruned = overlapping(lock, lambda: upkeep.prune(execute, {"FAILED": 3600}))
    assert pruned == 1
    assert left() == {locked.pk}


# Report


def report(hand: Hand, job, **what) -> None:
    said = {"id": job.id, "lease_token": job.lease_token, "log": "", **what}
    recording.report(execute, hand.id, [said])


def progress_of(job) -> tuple | None:
    values = Progress.objects.filter(pk=job.id)
    return values.values_list("done", "total", "message", "log").first()


def test_report_is_stored_and_added_to(hand):
    noop.enqueue()
    job = hand.claim_one()
    report(hand, job, done=1, total=4, message="first", log="one\n")
    assert progress_of(job) == (1, 4, "first", "one\n")
    report(hand, job, log="two\n")
    assert progress_of(job) == (1, 4, "first", "one\ntwo\n")
    report(hand, job, done=2, total=None, message="")
    assert progress_of(job) == (2, None, "", "one\ntwo\n")


def test_log_alone_is_a_report(hand):
    noop.enqueue()
    job = hand.claim_one()
    report(hand, job, log="one\n")
    assert progress_of(job) == (None, None, "", "one\n")


def test_log_keeps_its_end(hand, monkeypatch):
    monkeypatch.setattr(recording, "LONGEST_LOG", 6)
    noop.enqueue()
    job = hand.claim_one()
    report(hand, job, log="1234567\n")
    assert progress_of(job)[3] == "34567\n"
    report(hand, job, log="8\n")
    assert progress_of(job)[3] == "567\n8\n"


def test_report_of_a_lost_lease_is_dropped(hand):
    noop.enqueue()
    job = hand.claim_one()
    report(Hand("thief"), job, done=1)
    later_claimed(hand, job)
    report(hand, job, done=2)
    assert progress_of(job) is None


@pytest.mark.parametrize("lost_by", [claimed_again, retried_in_a_new_life])
def test_report_of_an_earlier_attempt_on_the_same_worker_is_dropped(hand, lost_by):
    noop.enqueue()
    stale = hand.claim_one()
    current = lost_by(hand, stale)
    report(hand, current, done=1, total=4, message="current", log="current\n")
    report(hand, stale, done=3, total=3, message="stale", log="stale\n")
    assert progress_of(current) == (1, 4, "current", "current\n")


def test_reports_of_several_jobs_are_one_statement(hand, django_assert_num_queries):
    enqueue(2)
    jobs = hand.claim(2)
    said = [
        {"id": job.id, "lease_token": job.lease_token, "done": 1, "log": ""}
        for job in jobs
    ]
    with django_assert_num_queries(1):
        recording.report(execute, hand.id, said)
    assert Progress.objects.count() == 2


@transactional
def test_report_of_a_job_that_is_being_deleted_is_dropped(hand):
    noop.enqueue()
    job = hand.claim_one()
    overlapping(Job.objects.all().delete, lambda: report(hand, job, done=1))
    assert Progress.objects.count() == 0


# Deleting


def test_every_way_to_delete_a_job_deletes_its_attempts():
    job = job_that_is("FAILED")
    Progress.objects.create(job=job, updated_at=timezone.now())
    with transaction.atomic():
        execute("DELETE FROM pgjobs_job")
    assert (Attempt.objects.count(), Progress.objects.count()) == (0, 0)
