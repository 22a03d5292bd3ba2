"""The options of `@task` for tasks whose function gets many jobs in one call."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Literal, TypedDict

from ...exceptions import InvalidTask, non_negative_seconds
from ...tasks.arguments import Signature
from ...tasks.option_checks import check_choice, check_duration, check_whole
from ...tasks.option_group import OptionGroup
from .members import ChunkSignature, member_of, parameter_of

MOST_MEMBERS = 10_000  # of one call
LONGEST_WAIT = 86_400.0  # seconds
ON_ERROR = ("fail", "bisect")
OwnQueue = "give the task a queue of its own whose limit counts calls"
# What cannot be beside `chunk`, unless it has this value, and what to do instead.
REFUSED = {
    "lock": (None, f"{OwnQueue}, with max_running=1"),
    "max_running": (None, OwnQueue),
    "rate": (None, f"{OwnQueue}, and sleep in the function"),
    "dependencies": ((), "let another task depend on them, and enqueue this one"),
    "isolated": (False, "call the code of a process of its own in the function"),
    "encrypted": (False, "let a task without chunk take what is secret"),
    "atomic": (False, "open transaction.atomic() in the function"),
    "process_units": (None, OwnQueue),
    "waits_for": ((), "let another task wait, and enqueue this one"),
    "deadline": (None, "say expires= or timeout="),
}


@dataclass(frozen=True, kw_only=True)
class Chunks(OptionGroup):
    """The options of `@task(...)` for calls of many jobs."""

    for_jobs = False

    #: How many jobs one call of the function gets at most. Its parameter is then hinted
    #: `Chunk[Args]`, and `Args` has the arguments of each job.
    chunk: int | None = None
    #: Time for which a new job waits for others: seconds or a `timedelta`.
    chunk_wait: float | timedelta | None = None
    #: Names of arguments that are equal for all jobs of a call.
    chunk_by: tuple[str, ...] = ()
    #: An exception fails all jobs of its call (`"fail"`), or the function is called
    #: again with each half, until the guilty job is alone (`"bisect"`).
    on_chunk_error: str = "fail"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "chunk_by", names_of(self.chunk_by))
        check_choice("on_chunk_error", self.on_chunk_error, ON_ERROR)
        if self.chunk is None:
            for name, usual in (
                ("chunk_wait", None),
                ("chunk_by", ()),
                ("on_chunk_error", "fail"),
            ):
                if getattr(self, name) != usual:
                    raise InvalidTask(f"{name} needs chunk, which is not given.")
            return
        check_whole("chunk", self.chunk, 1, MOST_MEMBERS)
        check_wait(self.chunk_wait)
        self.refuse_others()

    def refuse_others(self) -> None:
        """Raise InvalidTask for options that calls of many jobs do not have yet."""
        for name, (usual, cure) in REFUSED.items():
            if getattr(self, name, usual) != usual:
                raise InvalidTask(
                    f"{name} cannot be beside chunk: it would be a matter of each job, "
                    f"and a call has many. Instead {cure}."
                )
        if getattr(self, "max_crashes", 2) < 2:
            raise InvalidTask(
                "max_crashes must be at least 2 beside chunk: when a call of many jobs "
                "kills its process, the guilty one is known only once it is alone."
            )

    def signed(self, function: Callable) -> Callable:
        function = super().signed(function)
        return function if self.chunk is None else member_of(function)

    def signature(self, task_name: str, function: Callable) -> Signature:
        if self.chunk is None:
            return super().signature(task_name, function)
        return ChunkSignature(task_name, function)

    def check(self, function: Callable) -> None:
        super().check(function)
        if self.chunk is None:
            return
        known = parameter_of(function)
        for name in self.chunk_by:
            if name not in known:
                raise InvalidTask(
                    f"chunk_by: {name!r} is no argument of {function.__qualname__}, "
                    f"whose jobs have {', '.join(known)}."
                )

    def fixed_keys(self) -> dict[str, Any]:
        return super().fixed_keys() | self.chunk_keys

    @property
    def chunk_keys(self) -> dict[str, Any]:
        """What the rows of the task and of its jobs have of the options."""
        if self.chunk is None:
            return {}
        own: dict[str, Any] = {"chunk_by": list(self.chunk_by)}
        if self.chunk_wait is not None:
            own["chunk_wait"] = non_negative_seconds("chunk_wait", self.chunk_wait)
        return own

    @cached_property
    def gathered(self) -> Callable[..., Any] | None:
        if self.chunk is None:
            return super().gathered
        from .gathering import gathered  # only where it is needed

        return gathered

    def definition(self, signature: Signature) -> dict[str, Any]:
        own = {} if self.chunk is None else {"chunk": self.chunk}
        return super().definition(signature) | own


def names_of(given: Any) -> tuple[str, ...]:
    """Return the names in `chunk_by`; raise InvalidTask for anything else."""
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, Iterable):
        raise InvalidTask(f"chunk_by must be names of arguments, got {given!r}.")
    names = tuple(names)
    if not all(isinstance(name, str) and name for name in names):
        raise InvalidTask(f"chunk_by must be names of arguments, got {given!r}.")
    return tuple(dict.fromkeys(names))


def check_wait(value: Any) -> None:
    check_duration("chunk_wait", value)
    if value is not None and non_negative_seconds("chunk_wait", value) > LONGEST_WAIT:
        raise InvalidTask(f"chunk_wait must be at most a day, got {value!r}.")


GROUPS = (Chunks,)


class TaskOptions(TypedDict, total=False):
    """For type checkers, beside `chunk`."""

    chunk_wait: float | timedelta
    chunk_by: str | Iterable[str]
    on_chunk_error: Literal["fail", "bisect"]
