"""The checker counts ticks and deliveries."""

from chaos.checker.evidence import MoveRow
from chaos.journal import ACKNOWLEDGED, Transaction
from tests.chaos.histories import Story, broken, delivery, ran_once, tick


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


def chimes(story: Story, numbers: list[int], moves: list[tuple[int, int]]):
    """Let a schedule whose runs do not overlap fire, and move on as told."""
    found = ticks(story, numbers)
    found.ticks = [each._replace(overlap="skip") for each in found.ticks]
    found.moves = [
        MoveRow("project.tick", 2.0, "skip", 100.0 + 2 * begin, 100.0 + 2 * end)
        for begin, end in moves
    ]
    return found


def test_tick_that_is_left_out_while_the_last_run_goes_on_is_fine(story):
    assert broken(chimes(story, [0, 2], [(0, 1), (1, 2), (2, 3)])) == set()


def test_tick_that_was_missed_and_is_never_made_up_for_is_noticed(story):
    assert broken(chimes(story, [0, 3], [(0, 1), (1, 3), (3, 4)])) == {
        "tick never fired"
    }


def test_ticks_that_were_missed_and_are_made_up_for_are_fine(story):
    assert broken(chimes(story, [0, 1, 2, 3], [(0, 1), (1, 4)])) == set()


def test_schedule_that_never_fires_is_noticed(story):
    found = ticks(story, [0, 1], schedules=("project.tick", "project.chime"))
    assert broken(found) == {"tick never fired"}
