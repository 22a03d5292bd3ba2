"""Publishing in a project that is not migrated: the message names the cure."""

import pytest

from pgjobs import publish
from tests.queue.test_missing_tables import check_that_they_are_named


@pytest.mark.django_db
def test_missing_tables_are_named_with_the_command_that_makes_them(stored_handlers):
    check_that_they_are_named(lambda: publish("tle.refreshed", {"satellite_id": 5}))
