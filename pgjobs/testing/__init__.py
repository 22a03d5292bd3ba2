"""A kit for the tests of a project's jobs. docs/testing.md shows how it is used."""

from ..features.testing.assertions import assert_enqueued, enqueued, refute_enqueued
from ..features.testing.asynchronous import (
    aassert_enqueued,
    aenqueued,
    aperform,
    arefute_enqueued,
    arun_jobs,
)
from ..features.testing.modes import override_mode
from ..features.testing.performing import (
    Performed,
    Progress,
    capture_jobs,
    perform,
)
from ..features.testing.running import run_jobs

__all__ = [
    "Performed",
    "Progress",
    "aassert_enqueued",
    "aenqueued",
    "aperform",
    "arefute_enqueued",
    "arun_jobs",
    "assert_enqueued",
    "capture_jobs",
    "enqueued",
    "override_mode",
    "perform",
    "refute_enqueued",
    "run_jobs",
]
