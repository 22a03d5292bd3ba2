import pytest


@pytest.fixture
def path(tmp_path):
    """The file that gets a line for each call."""
    return str(tmp_path / "calls")
