"""A kit for the tests of a project's jobs. docs/testing.md shows how it is used."""

from .assertions import assert_enqueued, enqueued, refute_enqueued
from .asynchronous import (
    aassert_enqueued,
    aenqueued,
    aperform,
    arefute_enqueued,
    arun_jobs,
)
from .capturing import capture_jobs
from .modes import override_mode
from .performing import Performed, Progress, perform
from .running import run_jobs

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
