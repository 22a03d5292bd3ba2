"""One fault of any statement, those of features too, stops no plain job."""

from math import isinf

import pytest
from django.utils import timezone

from pgjobs import current_job, enqueue, enqueue_many, task
from pgjobs.worker.upkeep.chore import LONGEST_PAUSE
from tests import tasks
from tests.actors import hours, job_that_is, session
from tests.features.test_chores import (
    leave_a_schedule_due,
    leave_an_event_for_a_late_handler,
)
from tests.processes import (
    ROOT,
    STATEMENTS,
    UPKEEP,
    running_worker,
    shared_queue,
    wait_for,
    wait_for_status,
)
from tests.support import dependent_tasks as dependent
from tests.support.broken import broken
from tests.worker.test_isolation import (
    MOST_TRIES,
    OF_LISTENING,
    SOON,
    fail_twice_at_most,
    neighbours,
    wait_until_all,
)
from tests.worker.test_maintenance import leave_jobs_of_the_dead

pytestmark = shared_queue

SMALL = {"slots": 4, "poll": 0.5, "grace": 1}
# A worker needs these to begin; and those run on the connection of a job, whose failure
# they are.
TO_BEGIN = {"register_worker", "heartbeat"}
OF_ONE_JOB = {
    *("steps", "mark_step", "still_owned", "complete"),
    *("drop_answer", "first_life", "keep_parts", "own_version", "refused_jobs"),
    *("mark_encrypted", "save_metadata", "seal_step", "seconds_left"),
    *("store_results", "take_wait"),
}
# Plain jobs cannot run without it.
CLAIM = {"record_and_claim"}
# Statements of features that the application, a command, a report or the kit for tests
# sends, or a worker before it begins.
OF_APPLICATION = {
    "answer",
    "answer_faults",
    "answerable",
    "asked",
    "asked_permissions",
    "chain",
    "count_errors",
    "encrypted_answers",
    "encrypted_jobs",
    "encrypted_mark",
    "encrypted_marks",
    "encrypted_steps",
    "store_encrypted_answers",
    "store_encrypted_jobs",
    "store_encrypted_steps",
    "decided_entries",
    "deliver",
    "differing_entries",
    "errors",
    "failing_schedules",
    "failing_tasks",
    "figures",
    "first_ready",
    "forget_manifests",
    "in_the_clear",
    "link_state",
    "lost_workers",
    "mark_step_done",
    "misses_entries",
    "moving_jobs",
    "moving_left",
    "crossing_links",
    "next_due",
    "no_worker",
    "notification_queue",
    "order",
    "pack_jobs",
    "pack_rest",
    "pack_schedules",
    "pass_time",
    "publish",
    "queue_gauges",
    "replayable",
    "retry_keeping",
    "running_jobs",
    "sequences_behind",
    "set_override",
    "settle_manifests",
    "still_lines",
    "store_entries",
    "store_manifest",
    "sync_tasks",
    "too_heavy",
    "unadmitted",
    "unlooked_dependencies",
    "unserved_queues",
}
OF_ITSELF = {
    path.stem
    for room in ("sql/worker", "features/steps")
    for path in (ROOT / "pgjobs" / room).glob("*.sql")
}
NAMES = OF_ITSELF | (UPKEEP - OF_APPLICATION)
# What the scenario below makes a worker run by all means.
CERTAIN = {
    "admit",
    "chores",
    "deliver_late",
    "expire",
    "fire",
    "next_fire",
    "promote",
    "prune",
    "prune_batches",
    "prune_events",
    "prune_left_rows",
    "record_with_group",
    "report",
    "rescue",
    "undecided",
}


@task
def report_twice(path: str):
    current_job().progress(1, 2, "half")
    tasks.hold.function(path)


def leave_something_for_each_statement(path: str) -> None:
    leave_jobs_of_the_dead()
    leave_an_event_for_a_late_handler()
    leave_a_schedule_due()
    job_that_is("READY", expires_at=timezone.now() - hours(1))
    job_that_is("SUCCESSFUL", finished_at=timezone.now() - hours(99_999))
    enqueue(tasks.noop.using(run_after=hours(0)))
    enqueue(tasks.fail_with, "no")
    enqueue(tasks.noop.using(lock="door"))
    dependent.use.enqueue(path)
    enqueue(report_twice, path)


@pytest.mark.slow
@pytest.mark.usefixtures("no_schedules", "no_subscriptions")
@pytest.mark.parametrize(
    "name", sorted(NAMES - TO_BEGIN - OF_ONE_JOB - OF_LISTENING - CLAIM)
)
def test_plain_jobs_run_while_a_statement_of_the_worker_fails_for_ever(
    name, settings, tmp_path, caplog
):
    settings.PGJOBS = {"HEARTBEAT_INTERVAL": 0.5, "LEASE_DURATION": 5}
    path = str(tmp_path / "held")
    leave_something_for_each_statement(path)
    with broken(name) as failures, running_worker(**SMALL) as loop:
        for chore in loop.upkeep.chores:
            if not isinf(chore.interval):
                chore.due = 0.0
        loop.bell.ring()
        if name in CERTAIN:
            wait_for(lambda: failures[name], f"{name} is run", SOON)
        running = enqueue(report_twice, path)
        for _ in range(3):
            wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
        running.refresh_from_db()
        running.cancel()
        tasks.let_go(path)
        wait_for_status(enqueue(tasks.noop), "SUCCESSFUL", timeout=SOON)
        assert loop.phase == "running"
        assert loop.faults.since is None
    assert failures[name] <= MOST_TRIES, "it spins"
    if failures[name]:
        assert f"{name} is broken" in caplog.text


def test_every_statement_of_the_worker_is_broken_by_the_test_above():
    assert NAMES >= CERTAIN | TO_BEGIN | OF_ONE_JOB | OF_LISTENING | CLAIM
    assert set(STATEMENTS.values()) >= NAMES


def test_outcome_that_waits_for_a_lock_on_another_table_takes_no_slot():
    with session() as other, running_worker(slots=2, poll=600) as loop:
        other.begin()
        other.execute("LOCK TABLE pgjobs_errorgroup IN EXCLUSIVE MODE")
        failing = enqueue_many([fail_twice_at_most.bind(str(n)) for n in range(3)])
        wait_for(lambda: len(loop.in_flight.failing) >= 2, "they are kept for later")
        wait_until_all(neighbours(), "SUCCESSFUL")
        other.commit()
        wait_until_all(failing, "SCHEDULED")


def test_worker_that_cannot_count_units_says_so_and_goes_on_once_it_can(caplog):
    with running_worker(slots=3, units=3, poll=600) as loop:
        with broken("claim_by_queue") as failures:
            heavy = enqueue(tasks.noop.using(process_units=2, priority=100))
            plain = neighbours()
            wait_for(lambda: failures["claim_by_queue"] >= 3, "it is tried again")
            assert loop.phase == "running"
            assert loop.faults.since is None
        assert failures["claim_by_queue"] <= MOST_TRIES, "it spins"
        wait_for_status(heavy, "SUCCESSFUL", timeout=2 * LONGEST_PAUSE)
        wait_until_all(plain, "SUCCESSFUL")
    assert "claim_by_queue is broken" in caplog.text
