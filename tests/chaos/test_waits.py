"""The checker sees what was kept waiting."""

import pytest

from chaos.checker.evidence import EVERYBODY, FaultRow, Pause
from chaos.checker.waits import KILLING, KILLING_ALL
from chaos.recovery import recoveries
from tests.chaos.histories import FIRST, OPERATOR, SECOND, WORKERS, Story, broken, kill


def test_job_that_never_ends_is_noticed(story):
    story.enqueue(1, status="SCHEDULED")
    story.time += 10
    assert broken(story.evidence()) == {"stuck"}


def test_job_that_came_just_before_the_end_is_fine(story):
    story.enqueue(1, status="SCHEDULED")
    assert broken(story.evidence()) == set()


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


def test_ready_job_beside_a_worker_of_another_queue_is_fine(story):
    wait_long(story)
    others = [each._replace(queues="swift,mail") for each in WORKERS]
    assert broken(story.evidence(workers=others)) == set()


def test_ready_job_beside_a_killed_worker_is_fine(story):
    killed = [kill(50.0, pid)._replace(met=()) for pid in (101, 102)]
    wait_long(story)
    assert broken(story.evidence(faults=killed)) == set()


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


@pytest.mark.parametrize(("seconds", "is_free"), [(20, True), (90, False)])
def test_body_whose_row_was_ended_by_hand_takes_a_slot_until_it_is_over(
    story, seconds, is_free
):
    held = {11: 1, 12: 1, 13: 1, 21: 2, 22: 2, 23: 2}
    for job_id, worker in held.items():
        story.enqueue(job_id, seconds=seconds)
        story.claim(job_id, worker)
    for job_id in held:
        story.write(job_id, OPERATOR, status="FAILED", worker_id=None)
    wait_long(story)
    assert ("overlooked" in broken(story.evidence())) == is_free


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


def lose_for(story: Story, seconds: float, kind="kill a worker") -> FaultRow:
    """Kill a worker, and let its job go back after so many seconds."""
    story.enqueue(1)
    token = story.claim(1).token
    killed = kill(story.time)._replace(kind=kind, met=((1, token),))
    story.time += seconds - 1
    story.rescue(1)
    story.claim(1, worker=2)
    story.succeed(1, SECOND)
    return killed


@pytest.mark.parametrize("kind", KILLING)
def test_rescue_that_comes_late_is_noticed(story, kind):
    killed = lose_for(story, 11, kind)
    assert broken(story.evidence(faults=[killed])) == {"rescued late"}


def test_rescue_in_time_is_fine(story):
    killed = lose_for(story, 9)
    assert broken(story.evidence(faults=[killed])) == set()


def test_rescue_after_an_outage_may_come_later(story):
    killed = lose_for(story, 15)
    outage = FaultRow("stop and start the server", story.time - 12, story.time - 4)
    assert broken(story.evidence(faults=[killed, outage])) == set()


@pytest.mark.parametrize(("seconds", "is_late"), [(9, False), (11, True)])
def test_rescue_after_the_death_of_all_counts_from_the_first_new_worker(
    story, seconds, is_late
):
    killed = lose_for(story, 20 + seconds, KILLING_ALL)
    killed = killed._replace(pids=(101,), target=EVERYBODY)
    first, second = WORKERS
    new = second._replace(at=killed.began_at + 20)
    found = broken(story.evidence(faults=[killed], workers=[first, new]))
    assert ("rescued late" in found) is is_late


def test_time_until_a_rescue_is_told_without_that_of_an_outage(story):
    killed = lose_for(story, 15)
    outage = FaultRow("stop and start the server", story.time - 12, story.time - 4)
    recovery, _ = recoveries(story.evidence(faults=[killed, outage]))
    assert recovery.kind == "kill a worker"
    assert recovery.taken_back == [pytest.approx(15 - 8)]
