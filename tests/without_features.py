"""What tests get in place of `of_features` in a copy of the core alone."""

import pytest


@pytest.fixture
def no_schedules(db):
    """Do nothing: there are none."""


@pytest.fixture
def no_subscriptions(db):
    """Do nothing: there are none."""


@pytest.fixture
def stored_handlers(db):
    """Do nothing: there are none."""
