"""The checker recognises each violation, and lets a good history pass."""

import ast
from pathlib import Path

import pytest

from chaos.checker import states
from chaos.checker.evidence import POISON, EffectRow, FaultRow, Pause
from chaos.checker.verdicts import VERDICTS
from chaos.journal import ACKNOWLEDGED, IN_DOUBT, ROLLED_BACK, Transaction
from tests.chaos.histories import (
    FIRST,
    OPERATOR,
    SECOND,
    Story,
    broken,
    delivery,
    effects_of,
    kill,
    tick,
)

CHECKER = Path(states.__file__).parent


@pytest.fixture
def story() -> Story:
    return Story()


def ran_once(story: Story, job_id: int = 1, **values) -> None:
    story.enqueue(job_id, **values)
    story.claim(job_id)
    story.succeed(job_id)


# Good histories


def test_job_that_runs_once_is_fine(story):
    ran_once(story)
    assert broken(story.evidence()) == set()


def test_rescue_of_a_killed_workers_job_is_fine(story):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    assert broken(story.evidence(faults=[kill(story.time - 3)])) == set()


def test_operators_retry_is_fine(story):
    ran_once(story)
    retry = {"status": "READY", "life": 2, "attempts": 0, "recorded_attempt": None}
    story.write(1, OPERATOR, **retry)
    story.claim(1)
    story.succeed(1)
    assert broken(story.evidence()) == set()


def test_failure_and_backoff_are_fine(story):
    story.enqueue(1, max_attempts=2)
    story.claim(1)
    story.write(1, FIRST, status="SCHEDULED", failures=1, worker_id=None)
    story.write(1, SECOND, status="READY")
    story.claim(1)
    story.succeed(1)
    assert broken(story.evidence()) == set()


def test_poison_may_be_anything(story):
    story.write(1, POISON, status="RUNNING", worker_id=10**18, attempts=1)
    assert broken(story.evidence(effects=[])) == set()


# States


@pytest.mark.parametrize(
    "changes",
    [
        {"status": "READY"},
        {"status": "SUCCESSFUL", "life": 2},
        {"status": "FAILED"},
        {"status": "RUNNING", "worker_id": 1},
    ],
)
def test_finished_job_stays_as_it_is(story, changes):
    ran_once(story)
    story.write(1, FIRST, **changes)
    assert "illegal transition" in broken(story.evidence())


@pytest.mark.parametrize(
    "changes",
    [
        {"crashes": 0},
        {"token": 1},
        {"failures": 1},
        {"crashes": 2},
        {"attempts": 0},
    ],
)
def test_rescue_that_counts_wrongly_is_illegal(story, changes):
    story.enqueue(1)
    story.claim(1)
    story.rescue(1, **changes)
    evidence = story.evidence(faults=[kill(story.time - 1)])
    assert "illegal transition" in broken(evidence)


def test_rescue_after_the_last_crash_is_illegal(story):
    story.enqueue(1, max_crashes=1)
    story.claim(1)
    story.rescue(1)
    assert "illegal transition" in broken(story.evidence())


def test_retry_after_the_last_failure_is_illegal(story):
    story.enqueue(1, max_attempts=1)
    story.claim(1)
    story.write(1, FIRST, status="SCHEDULED", failures=1, worker_id=None)
    assert "illegal transition" in broken(story.evidence())


def test_retry_of_a_job_that_is_to_be_cancelled_is_illegal(story):
    story.enqueue(1)
    story.claim(1)
    story.write(1, OPERATOR, cancel_requested_at="now")
    story.write(1, FIRST, status="READY", worker_id=None)
    assert "illegal transition" in broken(story.evidence())


def test_cancel_that_nobody_asked_for_is_illegal(story):
    story.enqueue(1)
    story.write(1, FIRST, status="CANCELLED")
    assert "illegal transition" in broken(story.evidence())


def test_locked_job_is_not_ready_from_the_start(story):
    story.enqueue(1, lock="door")
    assert "illegal transition" in broken(story.evidence())


def test_two_ends_of_one_life_are_noticed(story):
    ran_once(story)
    story.write(1, FIRST, status="RUNNING", worker_id=1)
    story.succeed(1)
    assert "double completion" in broken(story.evidence())


def test_token_of_two_claims_is_noticed(story):
    for job_id in (1, 2):
        story.enqueue(job_id)
        story.claim(job_id, token=5)
        story.succeed(job_id)
    assert broken(story.evidence()) == {"token used twice"}


def test_end_recorded_by_another_worker_is_noticed(story):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.succeed(1, SECOND)
    assert broken(story.evidence()) == {"recorded by a stale worker"}


def test_result_of_another_attempt_is_noticed(story):
    story.enqueue(1)
    story.claim(1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND, recorded_attempt=1)
    evidence = story.evidence(faults=[kill(story.time - 3)])
    assert broken(evidence) == {"recorded by a stale worker"}


@pytest.mark.parametrize("pid", [None, 102])
def test_rescue_from_a_worker_that_met_no_fault_is_noticed(story, pid):
    story.enqueue(1)
    story.claim(1, worker=1)
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    faults = [kill(story.time - 3, pid)] if pid else []
    assert broken(story.evidence(faults=faults)) == {"taken from a living worker"}


def test_innocent_that_failed_is_noticed(story):
    story.enqueue(1, task="project.bystander", max_attempts=1)
    story.claim(1)
    story.write(1, FIRST, status="FAILED", failures=1, worker_id=None)
    assert broken(story.evidence()) == {"innocents failed"}


def test_guilty_one_that_succeeded_is_noticed(story):
    ran_once(story, task="project.doomed")
    assert broken(story.evidence()) == {"innocents failed"}


def test_job_that_an_operator_failed_is_fine(story):
    story.enqueue(1)
    story.write(1, OPERATOR, status="FAILED")
    assert broken(story.evidence()) == set()


# Side by side


def run_two(story: Story, **values) -> None:
    """Run two jobs at a time, which begin WAITING if they have a key."""
    for job_id in (1, 2):
        story.enqueue(job_id, status="WAITING", waiting_for="lock", **values)
    for job_id in (1, 2):
        story.write(job_id, FIRST, status="READY", waiting_for=None)
        story.claim(job_id)
    for job_id in (1, 2):
        story.succeed(job_id)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ({"lock": "door", "is_ordered": False}, "two running in one lock"),
        ({"limit_key": "mail", "max_running": 1}, "limit exceeded"),
        ({"units": 60}, "units exceeded"),
        ({"unique_key": "one", "unique_for": "unfinished"}, "unique violated"),
    ],
)
def test_two_that_may_not_be_side_by_side_are_noticed(story, values, verdict):
    run_two(story, **values)
    assert broken(story.evidence()) == {verdict}


@pytest.mark.parametrize(
    "values",
    [
        {"limit_key": "mail", "max_running": 2},
        {"units": 50},
        {"unique_key": "one", "unique_for": "waiting"},
    ],
)
def test_two_that_may_be_side_by_side_are_fine(story, values):
    run_two(story, **values)
    assert broken(story.evidence()) == set()


def test_queue_with_too_many_running_jobs_is_noticed(story):
    for job_id in (1, 2, 3):
        story.enqueue(job_id, queue="narrow")
        story.claim(job_id)
    for job_id in (1, 2, 3):
        story.succeed(job_id)
    assert broken(story.evidence()) == {"queue limit exceeded"}


def test_worker_with_more_jobs_than_slots_is_noticed(story):
    for job_id in (1, 2, 3, 4):
        story.enqueue(job_id)
        story.claim(job_id)
    for job_id in (1, 2, 3, 4):
        story.succeed(job_id)
    assert broken(story.evidence()) == {"slots exceeded"}


def test_what_one_transaction_does_is_one_moment(story):
    """One statement may claim the next job of a lock before it records the last."""
    for job_id in (1, 2):
        story.enqueue(job_id, limit_key="mail", max_running=1, status="WAITING")
    story.write(1, FIRST, status="READY")
    story.claim(1)
    story.write(2, FIRST, status="READY")
    claim = story.claim(2)
    story.succeed(1, moment=claim.moment)
    story.versions[-2] = claim._replace(moment=story.versions[-1].moment)
    story.succeed(2)
    assert broken(story.evidence()) == set()


def test_order_of_a_lock_that_is_not_kept_is_noticed(story):
    for job_id in (1, 2):
        story.enqueue(job_id, lock="door", status="WAITING")
    for job_id in (2, 1):
        story.time += 2
        story.write(job_id, FIRST, status="READY")
        story.claim(job_id)
        story.succeed(job_id)
    assert broken(story.evidence()) == {"order violated"}


def test_order_of_jobs_that_were_committed_late_is_fine(story):
    story.enqueue(2, lock="door", status="WAITING")
    story.enqueue(1, lock="door", status="WAITING", committed_at=story.time + 1.9)
    for job_id in (2, 1):
        story.write(job_id, FIRST, status="READY")
        story.claim(job_id)
        story.succeed(job_id)
    assert broken(story.evidence()) == set()


# Journals


def transaction(marks: list[str], outcome: str) -> list[Transaction]:
    return [Transaction("t", "plain", marks, outcome, [])]


def test_committed_job_that_is_gone_is_noticed(story):
    ran_once(story)
    committed = transaction(["mark-1", "mark-2"], ACKNOWLEDGED)
    assert broken(story.evidence(transactions=committed)) == {"lost"}


def test_deleted_job_is_noticed(story):
    ran_once(story)
    story.write(1, FIRST, operation="DELETE")
    assert broken(story.evidence()) == {"lost"}


def test_job_that_was_rolled_back_is_noticed(story):
    ran_once(story)
    undone = transaction(["mark-1"], ROLLED_BACK)
    assert broken(story.evidence(transactions=undone)) == {"phantom"}


def test_job_that_nobody_asked_for_is_noticed(story):
    ran_once(story)
    assert broken(story.evidence(transactions=[])) == {"phantom"}


def test_half_of_a_transaction_in_doubt_is_noticed(story):
    ran_once(story)
    doubtful = transaction(["mark-1", "mark-2"], IN_DOUBT)
    assert broken(story.evidence(transactions=doubtful)) == {"half a transaction"}


@pytest.mark.parametrize("marks", [["mark-1"], ["mark-2", "mark-3"]])
def test_transaction_in_doubt_may_exist_or_not(story, marks):
    ran_once(story)
    known = transaction(["mark-1"], ACKNOWLEDGED)
    evidence = story.evidence(transactions=known + transaction(marks, IN_DOUBT))
    assert broken(evidence) == set()


def test_two_jobs_of_one_request_are_noticed(story):
    ran_once(story, 1)
    ran_once(story, 2)
    story.versions = [each._replace(mark="mark-1") for each in story.versions]
    assert broken(story.evidence()) == {"enqueued twice"}


# Effects


@pytest.mark.parametrize("number", [0, 2])
def test_effect_that_does_not_fit_the_success_is_noticed(story, number):
    ran_once(story, task="project.settle")
    effects = [EffectRow(1, 1, 1, "settled")] * number + effects_of(story.versions)
    found = broken(story.evidence(effects=effects))
    assert "double effect" in found


def test_effect_of_a_failed_atomic_job_is_noticed(story):
    story.enqueue(1, task="project.settle")
    story.write(1, OPERATOR, status="FAILED")
    evidence = story.evidence(effects=[EffectRow(1, 1, 1, "settled")])
    assert "double effect" in broken(evidence)


def test_atomic_job_without_its_child_is_noticed(story):
    ran_once(story, task="project.settle")
    effects = [EffectRow(1, 1, 1, "settled")]
    evidence = story.evidence(effects=effects)
    assert broken(evidence) == {"children of atomic jobs"}


def test_step_that_took_effect_twice_is_noticed(story):
    ran_once(story)
    effects = [*effects_of(story.versions), *[EffectRow(1, 1, 1, "step")] * 2]
    assert broken(story.evidence(effects=effects)) == {"double step"}


def test_success_of_a_body_that_never_ran_is_noticed(story):
    ran_once(story)
    assert broken(story.evidence(effects=[])) == {"success without a run"}


def test_body_that_ran_without_a_claim_is_noticed(story):
    ran_once(story)
    effects = [*effects_of(story.versions), EffectRow(1, 1, 2, "ran")]
    assert broken(story.evidence(effects=effects)) == {"run without a claim"}


# Schedules and events


def ticks(story: Story, numbers: list[int], **other):
    """Run a job for each of these ticks."""
    for job_id, _ in enumerate(numbers, 1):
        ran_once(story, job_id, task="project.tick")
    next_run_at = 100.0 + 2 * (numbers[-1] + 1)
    rows = [tick(n, job, next_run_at) for job, n in enumerate(numbers, 1)]
    return story.evidence(**{"ticks": rows, "ended_at": next_run_at, **other})


def test_schedule_that_fires_each_time_is_fine(story):
    assert broken(ticks(story, [0, 1, 2])) == set()


def test_tick_that_fired_twice_is_noticed(story):
    assert broken(ticks(story, [0, 1, 1, 2])) == {"tick fired twice"}


def test_job_without_a_tick_is_noticed(story):
    ran_once(story, 9, task="project.tick")
    assert broken(ticks(story, [0, 1])) == {"tick fired twice"}


def test_tick_that_never_fired_is_noticed(story):
    assert broken(ticks(story, [0, 2])) == {"tick never fired"}


def test_schedule_that_has_stopped_is_noticed(story):
    assert broken(ticks(story, [0, 1], ended_at=999.0)) == {"tick never fired"}


def delivered(story: Story, jobs: list[str], rows: list, **other):
    """Run a delivery of event 1 for each of these tasks."""
    for job_id, task in enumerate(jobs, 1):
        ran_once(story, job_id, task=task)
    story.versions = [each._replace(mark="event-1") for each in story.versions]
    return story.evidence(
        subscribers=("project.first_handler", "project.ordered_handler"),
        transactions=[Transaction("t", "event", ["event-1"], ACKNOWLEDGED, [])],
        deliveries=rows,
        **other,
    )


ONE, TWO = "project.first_handler", "project.ordered_handler"


def test_event_that_reaches_all_is_fine(story):
    rows = [delivery(1, ONE, 1), delivery(1, TWO, 2)]
    assert broken(delivered(story, [ONE, TWO], rows)) == set()


def test_missing_delivery_is_noticed(story):
    rows = [delivery(1, ONE, 1)]
    assert broken(delivered(story, [ONE], rows)) == {"delivery missing"}


def test_event_without_any_delivery_is_noticed(story):
    assert broken(delivered(story, [], [delivery(1, None, None)])) == {
        "delivery missing"
    }


def test_doubled_delivery_is_noticed(story):
    rows = [delivery(1, ONE, 1), delivery(1, TWO, 2)]
    found = broken(delivered(story, [ONE, TWO, TWO], rows))
    assert found == {"delivery doubled"}


# Waits


def test_job_that_never_ends_is_noticed(story):
    story.enqueue(1, status="SCHEDULED")
    assert broken(story.evidence()) == {"stuck"}


def wait_long(story: Story, **values) -> None:
    """Leave a READY job for a minute."""
    story.enqueue(1, **values)
    story.time += 60
    story.claim(1)
    story.succeed(1)


def test_ready_job_beside_a_free_worker_is_noticed(story):
    wait_long(story)
    assert broken(story.evidence()) == {"overlooked"}


def test_ready_job_without_a_worker_is_fine(story):
    wait_long(story)
    assert broken(story.evidence(workers=[])) == set()


def test_ready_job_beside_busy_workers_is_fine(story):
    jobs = {1: [11, 12, 13], 2: [21, 22, 23]}
    for worker, ids in jobs.items():
        for job_id in ids:
            story.enqueue(job_id)
            story.claim(job_id, worker)
    wait_long(story)
    for worker, ids in jobs.items():
        for job_id in ids:
            story.succeed(job_id, FIRST if worker == 1 else SECOND)
    assert "overlooked" not in broken(story.evidence())


def test_ready_job_of_a_paused_queue_is_fine(story):
    wait_long(story)
    pauses = [Pause("default", True, 100.0), Pause("default", False, story.time - 2)]
    assert broken(story.evidence(pauses=pauses)) == set()


def test_ready_job_during_a_fault_that_met_all_is_fine(story):
    wait_long(story)
    outage = FaultRow("full disk", 100.0, story.time, pids=(101, 102))
    assert broken(story.evidence(faults=[outage])) == set()


def test_fault_of_one_worker_excuses_no_other(story):
    wait_long(story)
    stopped = FaultRow("stop a worker", 100.0, story.time, "a.1", (101,))
    assert broken(story.evidence(faults=[stopped])) == {"overlooked"}


# The checker itself


def test_checker_imports_nothing_of_the_product():
    for path in CHECKER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert not (node.module or "").startswith(("pgjobs", "django"))
            if isinstance(node, ast.Import):
                assert not any(each.name.startswith("pgjobs") for each in node.names)


def test_every_verdict_is_tested():
    text = Path(__file__).read_text()
    assert len(VERDICTS) >= 25
    for verdict in VERDICTS:
        assert f'"{verdict.name}"' in text, verdict.name
