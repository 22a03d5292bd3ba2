"""The tasks of these tests are declared while the tests of their module run.

Elsewhere the system checks would complain of some of them.
"""

import pytest

from pgjobs.tasks.registry import registry
from pgjobs.tasks.task import Task

SHARED = "tests.telemetry.tenants"  # by several modules
OWNERS = (
    "tests.telemetry.",
    "tests.features.exporters.",
    "tests.features.follow_ups.",
    "tests.features.testing.test_surroundings",
)
declared: dict[str, dict[tuple[str, str], Task]] = {}


def pytest_collection_finish(session):
    """Take the tasks out of the registry once all modules are imported."""
    for origin in list(registry.tasks):
        if origin[0].startswith(OWNERS):
            declared.setdefault(origin[0], {})[origin] = registry.tasks.pop(origin)
    registry.forget_names()


@pytest.fixture(autouse=True)
def own_tasks(request, same_registry_afterwards):
    for module in (SHARED, request.module.__name__):
        registry.tasks = {**registry.tasks, **declared.get(module, {})}
    registry.forget_names()
