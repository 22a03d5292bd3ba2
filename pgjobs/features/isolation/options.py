"""The options of `@task` for tasks in a process of their own."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

from ...exceptions import InvalidTask
from ...tasks.option_group import OptionGroup

SIZE = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?([kKMGT]i?)?B", re.ASCII)
FACTORS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
SMALLEST = 10**6  # bytes: no Python does with less
LARGEST = 2**53


@dataclass(frozen=True, kw_only=True)
class Isolation(OptionGroup):
    """The options of `@task(...)` for a process of its own."""

    for_jobs = False

    #: The body runs in a process of its own, which can be killed and may crash.
    isolated: bool = False
    #: Memory that this process and those that it starts may take together, such as
    #: `"500MB"`; a number means bytes. Above it they are killed.
    memory_limit: int | str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.isolated, bool):
            raise InvalidTask(f"isolated must be True or False, got {self.isolated!r}.")
        if self.memory_limit is None:
            return
        if not self.isolated:
            raise InvalidTask(
                "memory_limit needs isolated=True: of a thread nobody can tell how "
                "much memory it takes."
            )
        object.__setattr__(self, "memory_limit", size_of(self.memory_limit))

    def fixed_keys(self) -> dict[str, Any]:
        own = {"isolated": True} if self.isolated else {}
        return super().fixed_keys() | own

    @cached_property  # each job asks
    def execution(self) -> "Callable[..., Any] | None":
        if not self.isolated:
            return None
        from .execution import IsolatedExecution  # only where it is needed

        return IsolatedExecution

    @cached_property
    def gathered(self) -> "Callable[..., Any] | None":
        if not self.isolated:
            return super().gathered
        from .gathering import gathered  # only where it is needed

        return gathered


def size_of(value: Any) -> int:
    """Return the bytes that a limit says; raise InvalidTask."""
    size: float = 0
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    elif isinstance(value, str) and (match := SIZE.fullmatch(value)):
        unit = match[2] or ""
        factor = BINARY.get(unit) or FACTORS[unit.upper()]
        size = float(match[1]) * factor
    if not SMALLEST <= size <= LARGEST:
        raise InvalidTask(
            'memory_limit must be a size of at least 1 MB, such as "500MB", "1.5GB" '
            f'or "512MiB", or a number of bytes, got {value!r}.'
        )
    return int(size)


GROUPS = (Isolation,)


class TaskOptions(TypedDict, total=False):
    """For type checkers."""

    isolated: bool
    memory_limit: int | str
