"""The bugs that prove the checker: their texts stand in the package."""

import pytest

from chaos.bugs import BUGS, seeded
from chaos.checker.judging import VERDICTS


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_can_be_seeded_into_a_copy_of_the_package(bug, tmp_path):
    copy = seeded(bug, tmp_path)
    assert (copy / "pgjobs/__init__.py").exists()


# What other verdicts notice as well, or only code that no edit of one place can break.
WITHOUT_A_BUG = {
    "half a transaction",
    "enqueued twice",
    "children of atomic jobs",
    "double step",
    "success without a run",
    "run without a claim",
}


def test_every_other_verdict_has_a_bug_that_it_must_notice():
    names = {verdict.name for verdict in VERDICTS}
    assert names - {bug.verdict for bug in BUGS} == WITHOUT_A_BUG
