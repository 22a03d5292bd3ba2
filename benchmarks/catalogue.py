"""The systems that can be measured, each in the settings that its makers recommend."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class System:
    """One system in one way of running it."""

    name: str
    adapter: str  # the module, or the JavaScript file, in benchmarks/systems
    rate: int  # jobs a second that one worker was seen to run: sizes its drains
    settings: str  # printed with the results
    options: dict[str, Any] = field(default_factory=dict)  # OPTIONS of the adapter
    requirements: str | None = None  # file in benchmarks/requirements; None: none
    store: str = "postgresql"  # or "redis"

    @property
    def is_ours(self) -> bool:
        """Whether it needs no environment of its own."""
        return self.requirements is None


def bare_sql(batch: int, rate: int) -> System:
    return System(
        f"bare-{batch}",
        "bare_sql",
        rate,
        f"one connection; claim and record in one statement, {batch} at a time",
        {"batch": batch},
    )


def pgjobs(name: str, rate: int, *arguments: str) -> System:
    arguments = ("--concurrency", "10", "--poll", "60", *arguments)
    settings = f"runjobs {' '.join(arguments)}; signals available, logging at INFO"
    return System(name, "pgjobs", rate, settings, {"arguments": list(arguments)})


SYSTEMS = [
    bare_sql(10, 8_000),
    bare_sql(100, 25_000),
    pgjobs("pgjobs", 4_000),
    pgjobs("pgjobs-prefetch", 10_000, "--prefetch", "200"),
    pgjobs("pgjobs-2", 12_000, "--prefetch", "200", "--processes", "2"),
]
BY_NAME = {system.name: system for system in SYSTEMS}
QUICK = ["bare-10", "bare-100", "pgjobs", "pgjobs-prefetch"]
# What the figures of all others are divided by.
REFERENCES = QUICK
