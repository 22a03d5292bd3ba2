"""Where the arguments of a job came from, as its row says it."""

from collections.abc import Iterator
from typing import Any

from ...base.plain_json import load
from ...models.job import Job

# What pages read of `Job.keys`: what it will get, and what it has got.
KEYS = ("results", "results_taken")


def names_by_origin(job: Job) -> dict[tuple[str, int], list[str]]:
    """Return the names of arguments by ("job" or "batch", id) of what they are from.

    The page has read them as texts. SQL may have stored anything.
    """
    names: dict[tuple[str, int], list[str]] = {}
    for key in KEYS:
        try:
            entries = load(getattr(job, key, None) or "{}")
            for name, entry in entries.items():
                for origin in origins_of(entry):
                    names.setdefault(origin, []).append(name)
        except (AttributeError, TypeError, ValueError, RecursionError):
            continue
    return names


def origins_of(entry: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if "batch" in entry:
        yield "batch", entry["batch"]
    for id in entry.get("jobs", ()):
        yield "job", id
