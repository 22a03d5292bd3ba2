"""The checker knows what comes from other jobs, and what may follow a batch."""

from chaos.checker.evidence import PRUNER
from chaos.journal import ACKNOWLEDGED, Transaction
from tests.chaos.histories import OPERATOR, PRODUCER, Story, broken, ran_once

WHOLE = {"unique_key": "follow", "unique_for": "unfinished", "queue": "follow"}


def test_follow_up_with_all_its_options_is_fine(story):
    values = {"task": "project.follower", **WHOLE, "lock": "follow"}
    story.enqueue(1, status="WAITING", **values)
    story.write(1, PRODUCER, status="READY")
    story.claim(1)
    story.succeed(1)
    assert broken(story.evidence()) == set()


def test_follow_up_without_its_options_is_noticed(story):
    ran_once(story, task="project.follower", unique_key="follow")
    assert broken(story.evidence()) == {"follow-up without its options"}


def batch(story: Story, **other):
    """Let a batch fail, and run what comes after it all the same."""
    story.enqueue(1, task="project.quitter")
    story.enqueue(2, task="project.conclude", status="WAITING")
    story.claim(1)
    story.write(1, "pgjobs:loop:a.1", status="FAILED", worker_id=None, failures=1)
    story.write(2, "pgjobs:loop:a.1", status="READY")
    story.claim(2)
    story.succeed(2)
    marks = ["mark-1", "mark-2"]
    made = [Transaction("t", "batched", marks, ACKNOWLEDGED, [])]
    return story.evidence(transactions=made, **other)


def test_job_that_runs_after_a_failed_batch_is_noticed(story):
    assert "batch ended otherwise" in broken(batch(story))


def test_batch_of_which_an_operator_has_decided_is_not_judged(story):
    found = batch(story)
    found.versions = [
        each._replace(actor=OPERATOR) if each.status == "FAILED" else each
        for each in found.versions
    ]
    assert "batch ended otherwise" not in broken(found)


def test_deleted_job_is_lost_unless_the_pruner_has_deleted_it(story):
    ran_once(story)
    story.write(1, PRUNER, operation="DELETE")
    assert broken(story.evidence()) == set()
    story.write(1, OPERATOR, operation="DELETE")
    assert "lost" in broken(story.evidence())


def test_job_that_runs_again_in_one_life_is_noticed(story):
    ran_once(story)
    story.write(1, PRODUCER, status="READY", attempts=0, token=0)
    assert "ran again in one life" in broken(story.evidence())
