"""The pytest plugin of pgjobs: fixtures, which import pgjobs when a test asks for them.

It stands beside the package, because pytest imports it in every project of an
environment that has pgjobs, and an import of the package would import Django too.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pgjobs.models import Job


@pytest.fixture
def pgjobs_inline() -> Iterator[None]:
    """Run each job as it is enqueued, before `enqueue` returns."""
    from pgjobs.testing import override_mode

    with override_mode("inline"):
        yield


@pytest.fixture
def pgjobs_manual() -> Iterator[None]:
    """Record jobs only; no worker starts."""
    from pgjobs.testing import override_mode

    with override_mode("manual"):
        yield


@pytest.fixture
def captured_jobs() -> "Iterator[list[Job]]":
    """Collect the jobs that the test enqueues, rolled back or not."""
    from pgjobs.testing import capture_jobs

    with capture_jobs() as jobs:
        yield jobs
