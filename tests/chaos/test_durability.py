"""The checker compares jobs with journals, and records with effects."""

import pytest

from chaos.checker.durability import lost
from chaos.checker.evidence import EffectRow, Evidence, with_ends
from chaos.journal import ACKNOWLEDGED, IN_DOUBT, ROLLED_BACK, Transaction
from tests.chaos.histories import FIRST, OPERATOR, broken, effects_of, ran_once


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


def test_job_that_was_never_asked_for_is_noticed(story):
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


def test_success_that_a_worker_deletes_is_no_loss(story):
    story.enqueue(1, keep="failed")
    story.claim(1)
    story.write(1, FIRST, operation="DELETE")
    versions = [*with_ends(story.versions)]
    assert [version.status for version in versions[-2:]] == ["SUCCESSFUL"] * 2
    assert not [*lost(Evidence(versions))]
    assert [*lost(Evidence(story.versions))], "it had not succeeded"


def test_such_a_job_that_somebody_else_deletes_is_lost(story):
    story.enqueue(1, keep="failed")
    story.write(1, OPERATOR, operation="DELETE")
    assert [*lost(Evidence([*with_ends(story.versions)]))]


def test_job_whose_call_has_succeeded_twice_in_an_attempt_is_noticed(story):
    ran_once(story)
    done = EffectRow(1, 1, 1, "done")
    assert broken(story.evidence(effects=[*effects_of(story.versions), done])) == set()
    effects = [*effects_of(story.versions), done, done]
    assert broken(story.evidence(effects=effects)) == {"called twice"}
