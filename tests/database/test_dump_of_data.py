"""A dump of data alone goes into another database that has been migrated."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.database.test_owner import dump, manage, new_database, on, restore

# What `migrate` and workers store by themselves.
EMPTY = """
TRUNCATE pgjobs_taskdefinition, pgjobs_schedule, pgjobs_subscription, pgjobs_manifest
CASCADE
"""
SUBSCRIBE = """
INSERT INTO pgjobs_subscription (task, event) VALUES ('tests.noop', 'order.paid')
"""


@pytest.fixture
def databases() -> Iterator[tuple[str, str]]:
    """Return a database with jobs and a subscription, and one without."""
    with new_database("dumped") as dumped, new_database("restored") as restored:
        for name in (dumped, restored):
            manage(name, "migrate", "-v", "0")
        for _ in range(3):
            manage(dumped, "enqueuejob", "tests.add", "--args", '{"a": 1}')
        on(dumped, "public", SUBSCRIBE)
        on(restored, "public", EMPTY)
        yield dumped, restored


def dump_and_restore(dumped: str, restored: str, path: Path) -> None:
    dump(dumped, path, "--data-only", "--table", "pgjobs_*")
    restore(path, restored)


def dump_and_load(dumped: str, restored: str, path: Path) -> None:
    manage(dumped, "dumpdata", "pgjobs", "--output", f"{path}.json")
    manage(restored, "loaddata", f"{path}.json")


@pytest.mark.django_db
@pytest.mark.parametrize("move", [dump_and_restore, dump_and_load])
def test_dump_of_data_goes_into_a_migrated_database(move, databases, tmp_path):
    dumped, restored = databases
    move(dumped, restored, tmp_path / "dump")
    jobs = "SELECT id, task, kwargs FROM pgjobs_job ORDER BY id"
    assert on(restored, "public", jobs) == on(dumped, "public", jobs)
    assert "Completed 3 jobs" in manage(restored, "runjobs", "--drain")
