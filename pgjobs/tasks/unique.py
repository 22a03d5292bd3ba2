"""Unique jobs: what makes the key, how long it is held, what happens on a conflict."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..exceptions import InvalidTask, non_negative_seconds
from .flow_control import Key, KeyMaker, check_key, check_placeholders, key_of_arguments
from .option_checks import check_parameter
from .option_group import OptionGroup

if TYPE_CHECKING:
    from .arguments import Signature, Stored

UniqueFor = Literal["unfinished", "waiting"] | float | timedelta
OnConflict = Literal["return", "raise", "replace", "skip"]

ON_CONFLICT = ("return", "raise", "replace", "skip")
# Without `unique` or `unique_key` these have no effect.
HOW = ("unique_for", "on_conflict")


@dataclass(frozen=True, kw_only=True)
class Unique(OptionGroup):
    """The options of `@task(...)` and `.using(...)` for unique jobs."""

    #: `True` allows one job for the same arguments; names of parameters compare only
    #: these.
    unique: bool | tuple[str, ...] = False
    #: Key that only one job may hold at a time.
    unique_key: Key | None = None
    #: How long the key is held: until the job has ended, until it starts
    #: (`"waiting"`), or for a period: seconds or a `timedelta`.
    unique_for: UniqueFor = "unfinished"
    #: What `enqueue` does if the key is held: `"return"` that job, `"raise"`,
    #: `"replace"` its arguments, or `"skip"` (returns None).
    on_conflict: OnConflict = "return"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_unique(self.unique)
        check_key("unique_key", self.unique_key)
        if self.unique and self.unique_key is not None:
            raise InvalidTask("Give unique or unique_key, but not both.")
        check_unique_for(self.unique_for)
        if self.on_conflict not in ON_CONFLICT:
            raise InvalidTask(
                f"on_conflict must be {', '.join(map(repr, ON_CONFLICT))}, got "
                f"{self.on_conflict!r}."
            )

    @cached_property
    def is_unique(self) -> bool:
        return bool(self.unique) or self.unique_key is not None

    def check(self, function: Callable) -> None:
        super().check(function)
        check_placeholders("unique_key", self.unique_key, function)
        if not isinstance(self.unique, tuple):
            return
        for name in self.unique:
            check_parameter(f"unique: {name!r}", name, function)

    def unique_columns(
        self, signature: "Signature", args: tuple, kwargs: dict, stored: "Stored"
    ) -> dict[str, Any]:
        """Return the columns of the key of a job with these arguments.

        There is no key if a callable returns None. Raises InvalidArguments unless the
        key is a text of 1 to 500 characters.
        """
        if self.unique:
            key: str | None = self.key_of_arguments(signature.task_name, stored)
        else:
            maker = KeyMaker(signature, args, kwargs, stored)
            key = maker.make("unique_key", self.unique_key)
        if key is None:
            return {}
        if isinstance(self.unique_for, str):
            return {"unique_key": key, "unique_for": self.unique_for}
        return {
            "unique_key": key,
            "unique_for": "period",
            "unique_period": seconds_of(self.unique_for),
        }

    def key_of_arguments(self, task_name: str, stored: "Stored") -> str:
        """Return a key of the task's name and arguments, or of those in `unique`."""
        arguments: Any = json.loads(stored.kwargs)
        if isinstance(self.unique, tuple):
            arguments = {name: arguments[name] for name in sorted(self.unique)}
        elif stored.args != "[]":
            arguments = [json.loads(stored.args), arguments]
        return key_of_arguments(task_name, arguments)


def check_given(given: set[str], options: Unique) -> None:
    """Raise InvalidTask for options of a unique key if the task has none."""
    if options.is_unique or not given.intersection(HOW):
        return
    name = next(each for each in HOW if each in given)
    raise InvalidTask(f"{name} needs unique or unique_key, which are not given.")


def overridden(changes: dict[str, Any]) -> dict[str, Any]:
    """Add what else changes when a new key replaces the old one."""
    if "unique_key" in changes and "unique" not in changes:
        return {"unique": False, **changes}
    if "unique" in changes and "unique_key" not in changes:
        return {"unique_key": None, **changes}
    return changes


def check_unique(value: Any) -> None:
    if isinstance(value, bool):
        return
    names = isinstance(value, tuple) and all(isinstance(each, str) for each in value)
    if not names or not value or len(set(value)) < len(value):
        raise InvalidTask(
            "unique must be True (by all arguments) or a tuple of parameters' names, "
            f"got {value!r}."
        )


def check_unique_for(value: Any) -> None:
    if value in ("unfinished", "waiting"):
        return
    try:
        seconds = seconds_of(value)
    except ValueError:
        raise InvalidTask(
            "unique_for must be 'unfinished', 'waiting', or a period in seconds or as "
            f"a timedelta, got {value!r}."
        ) from None
    if seconds == 0:
        raise InvalidTask("unique_for must be more than 0 s.")


def seconds_of(period: Any) -> float:
    return non_negative_seconds("unique_for", period)
