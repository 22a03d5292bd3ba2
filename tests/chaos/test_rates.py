"""The checker counts the starts of a rate, in any window of time."""

import pytest

from chaos.checker.evidence import FaultRow
from chaos.checker.waits import STEP
from tests.chaos.histories import FIRST, Story, broken

TWO_A_SECOND = {"rate_key": "mail", "rate_seconds": 1.0, "rate_number": 2}


def start_at(story: Story, times: list[float], **rate) -> None:
    """Run a job at each of these moments, in seconds after the first hundred."""
    for job_id, time in enumerate(times, 1):
        values = {**TWO_A_SECOND, "rate_burst": 2, **rate}
        story.enqueue(job_id, status="WAITING", waiting_for="rate", **values)
        story.write(job_id, FIRST, status="READY", waiting_for=None)
        story.claim(job_id, attempted_at=100.0 + time)
        story.succeed(job_id)


@pytest.mark.parametrize("times", [[0.0, 0.1, 0.9], [0.0, 0.9, 1.0, 1.1]])
def test_start_too_many_is_noticed(story, times):
    start_at(story, times)
    assert broken(story.evidence()) == {"rate exceeded"}


@pytest.mark.parametrize("times", [[0.0, 0.1, 1.0], [0.0, 0.9, 1.0, 1.9, 2.0]])
def test_starts_that_fit_are_fine(story, times):
    start_at(story, times)
    assert broken(story.evidence()) == set()


def test_start_that_comes_before_its_even_time_is_noticed(story):
    start_at(story, [0.0, 0.4], rate_burst=1)
    assert broken(story.evidence()) == {"rate exceeded"}


def test_starts_at_their_even_times_are_fine(story):
    start_at(story, [0.0, 0.5, 1.0], rate_burst=1)
    assert broken(story.evidence()) == set()


def test_job_that_was_given_back_before_it_began_is_no_start(story):
    start_at(story, [0.0, 0.1, 0.2])
    found = story.evidence()
    found.effects = [each for each in found.effects if each.job_id != 2]
    assert "rate exceeded" not in broken(found)


def test_starts_while_the_clock_of_the_server_is_stepped_are_not_judged(story):
    start_at(story, [0.0, 0.1, 0.2])
    step = FaultRow(STEP[0], 100.0, 102.0)
    assert broken(story.evidence(faults=[step])) == set()


def test_key_whose_jobs_have_several_rates_is_not_judged(story):
    start_at(story, [0.0, 0.1, 0.2])
    story.versions = [
        each._replace(rate_number=5) if each.job_id == 3 else each
        for each in story.versions
    ]
    assert broken(story.evidence()) == set()
