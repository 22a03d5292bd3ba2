"""The checker sees lines that stand still, and jobs that are overtaken."""

import pytest

from chaos.checker.evidence import FaultRow, Pause
from tests.chaos.histories import FIRST, Story, broken

ONE = {"limit_key": "mail", "max_running": 1}
SEVERAL = {"limit_key": "mail", "max_running": 5}
SELDOM = {"rate_key": "mail", "rate_seconds": 1.0, "rate_number": 1, "rate_burst": 1}
OFTEN = {**SELDOM, "rate_number": 90, "rate_burst": 90}


def wait(story: Story, job_id: int, **values) -> None:
    kind = next(iter(values)).split("_")[0]
    values = {"turn": job_id, "waiting_for": kind, **values}
    story.enqueue(job_id, status="WAITING", **values)


def run(story: Story, job_id: int, **changes) -> None:
    story.write(job_id, FIRST, status="READY", waiting_for=None, **changes)
    story.claim(job_id)
    story.succeed(job_id)


def wait_long(story: Story, **values) -> None:
    """Leave a job in a line that nothing holds up."""
    wait(story, 1, **values)
    story.time += 60
    run(story, 1)


@pytest.mark.parametrize("values", [ONE, {"lock": "door"}])
def test_line_that_stands_still_beside_a_free_worker_is_noticed(story, values):
    wait_long(story, **values)
    assert broken(story.evidence()) == {"line stands still"}


def test_line_of_a_rate_may_stand_still(story):
    wait_long(story, **SELDOM)
    assert broken(story.evidence()) == set()


def test_line_of_a_paused_queue_may_stand_still(story):
    wait_long(story, **ONE)
    pauses = [Pause("default", True, 100.0), Pause("default", False, story.time - 3)]
    assert broken(story.evidence(pauses=pauses)) == set()


def test_line_stands_still_while_another_job_runs(story):
    wait(story, 2, **ONE)
    story.write(2, FIRST, status="READY", waiting_for=None)
    story.claim(2)
    wait(story, 3, **ONE)
    story.time += 60
    story.succeed(2)
    run(story, 3)
    assert broken(story.evidence()) == set()


def overtake(story: Story, first: dict, others: dict, number: int = 3) -> None:
    """Let some jobs that came later go before the first one."""
    wait(story, 1, **first)
    for job_id in range(2, 2 + number):
        wait(story, job_id, **others)
        run(story, job_id)
    story.time += 3
    run(story, 1)


@pytest.mark.parametrize(("first", "others"), [(ONE, SEVERAL), (SELDOM, OFTEN)])
def test_job_that_later_ones_overtake_is_noticed(story, first, others):
    overtake(story, first, others)
    assert "overtaken" in broken(story.evidence())


def test_job_that_is_overtaken_once_is_fine(story):
    overtake(story, SELDOM, OFTEN, number=1)
    assert broken(story.evidence()) == set()


def test_job_that_is_overtaken_while_its_row_is_locked_is_fine(story):
    overtake(story, SELDOM, OFTEN)
    locked = FaultRow("lock rows", 100.0, story.time)
    assert broken(story.evidence(faults=[locked])) == set()


def test_job_of_a_higher_priority_goes_before_others(story):
    overtake(story, SELDOM, {**OFTEN, "priority": 5})
    assert broken(story.evidence()) == set()
