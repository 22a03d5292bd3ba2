"""The options of `@task` for tasks that wait."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

from ...exceptions import InvalidTask, non_negative_seconds
from ...tasks.arguments import Signature
from ...tasks.option_checks import check_duration, check_whole
from ...tasks.option_group import OptionGroup
from ..events.names import check_pattern

MOST_EVENTS = 50  # of one task; each event that is published is compared with all


@dataclass(frozen=True, kw_only=True)
class Durable(OptionGroup):
    """The options of `@task(...)` for what its code waits for."""

    for_jobs = False

    #: Names of the events, or patterns such as `"order.*"`, for which its code waits.
    waits_for: tuple[str, ...] = ()
    #: Time that the whole life of a job may take, with all its waits and attempts, from
    #: when it can first begin: seconds or a `timedelta`. Then it ends FAILED.
    deadline: float | timedelta | None = None
    #: Of the code: a whole number, which a job keeps from when it was enqueued.
    version: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.waits_for
        names = (given,) if isinstance(given, str) else given
        if not isinstance(names, Iterable):
            raise InvalidTask(f"waits_for must be names of events, got {given!r}.")
        names = tuple(names)
        if len(names) > MOST_EVENTS:
            raise InvalidTask(
                f"waits_for has {len(names)} events, and may have {MOST_EVENTS}: name "
                "a pattern such as 'order.*'."
            )
        for name in names:
            check_pattern("waits_for", name)
        object.__setattr__(self, "waits_for", names)
        check_duration("deadline", self.deadline)
        object.__setattr__(self, "bounds_life", self.deadline is not None)
        check_whole("version", self.version, 1, 2_147_483_647)

    @property
    def in_row(self) -> dict[str, Any]:
        """What the rows of the task and of its jobs have of the options."""
        own: dict[str, Any] = {}
        if self.waits_for:
            own["waits_for"] = list(self.waits_for)
        if self.deadline is not None:
            own["deadline"] = non_negative_seconds("deadline", self.deadline)
        if self.version != 1:
            own["version"] = self.version
        return own

    def fixed_keys(self) -> dict[str, Any]:
        return super().fixed_keys() | self.in_row

    def definition(self, signature: Signature) -> dict[str, Any]:
        return super().definition(signature) | self.in_row

    def read_before(self) -> tuple[str, ...]:
        read = {"version": self.version != 1, "seconds_left": self.bounds_life}
        own = (name for name, is_needed in read.items() if is_needed)
        return (*super().read_before(), *own)


GROUPS = (Durable,)
DECLARATIONS = ()


class TaskOptions(TypedDict, total=False):
    """For type checkers."""

    waits_for: str | Iterable[str]
    deadline: float | timedelta
    version: int
