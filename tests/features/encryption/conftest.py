import pytest

from tests.features.encryption.keys import FIRST, keys


@pytest.fixture
def first_key():
    with keys(FIRST):
        yield
