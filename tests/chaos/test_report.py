"""The report ends with what matters."""

from chaos.checker.judging import judge
from chaos.report import report


def told(evidence) -> list[str]:
    return list(report(evidence, judge(evidence)))


def test_report_ends_with_what_is_broken(story):
    story.enqueue(1, status="SCHEDULED")
    story.time += 10
    *_, promise, first = told(story.evidence())
    assert promise == (
        "Broken 1 x: every job has ended, some time after the last fault (stuck)."
    )
    assert first == "First: project.work 1 is still SCHEDULED"


def test_report_of_a_good_run_says_of_nothing_that_it_is_broken(story):
    story.enqueue(1, status="SCHEDULED")
    assert "Broken" not in "\n".join(told(story.evidence()))
