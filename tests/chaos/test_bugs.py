"""The bugs that prove the checker: their texts stand in the package."""

import pytest

from chaos.bugs import BUGS, seeded


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_bug_can_be_seeded_into_a_copy_of_the_package(bug, tmp_path):
    copy = seeded(bug, tmp_path)
    assert (copy / "pgjobs/__init__.py").exists()
