import pytest

from tests.chaos.histories import Story


@pytest.fixture
def story() -> Story:
    return Story()
