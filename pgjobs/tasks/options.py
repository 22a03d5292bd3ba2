"""The options of a task and of its jobs: their names, types, defaults and checks."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Any, Literal

from ..base.mask_names import HARMLESS, RESULT, names_to_mask
from ..base.moments import aware
from ..conf import log_level
from ..exceptions import InvalidTask, non_negative_seconds
from ..features import entries
from ..queue.new_job import NewJob
from ..reports.json_text import names_one_of
from .arguments import Stored
from .backoff import Backoff, exponential
from .destination import Destination
from .flow_control import KEYS, FlowControl, FlowControlOptions, Key
from .meant import meant
from .option_checks import (
    check_choice,
    check_duration,
    check_moment,
    check_whole,
    exception_classes,
    named_parameters,
    no_parameter,
    takes_any_name,
)
from .unique import Unique, UniqueFor

# No control characters, and no lone surrogates, which PostgreSQL cannot store.
QUEUE_NAME = re.compile(r"(?! )[^,\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}(?<! )")
CANCEL = ("interrupt", "cooperative")


@dataclass(frozen=True, kw_only=True)
class OwnOptions(FlowControl, Destination, Unique):
    """The options that need no feature."""

    #: The queue of the job.
    queue_name: str = "default"
    #: Of -100 to 100. A job of a higher priority starts first.
    priority: int = 0
    #: Attempts that may fail before the job ends FAILED.
    max_attempts: int = 3
    #: Worker processes that may die under the job before it ends FAILED.
    max_crashes: int = 3
    #: Time that an attempt may take: seconds or a `timedelta`. `None` leaves it to
    #: `PGJOBS["TIMEOUT"]`.
    timeout: float | timedelta | None = None
    #: A running job that is cancelled is interrupted by `TaskCancelled`, or asks by
    #: itself (`"cooperative"`).
    cancel: Literal["interrupt", "cooperative"] = "interrupt"
    #: A `timedelta` from now, or an aware datetime. The job does not start before.
    run_after: datetime | timedelta | None = None
    #: An aware datetime, or a `timedelta` from when the job can run. A job that no
    #: attempt has begun by then ends CANCELLED.
    expires: datetime | timedelta | None = None
    #: Seconds until the next attempt, from the number of failures: `exponential()`,
    #: `linear()`, `constant()` or a callable.
    backoff: Backoff = field(default_factory=exponential)
    #: Exception classes after which the job is tried again.
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    #: Exception classes after which the job ends FAILED at once.
    no_retry_on: tuple[type[BaseException], ...] = ()
    #: What the task does in the queue's database commits together with its success.
    atomic: bool = False
    #: Level from which on log records of the task's code are kept with the job, such as
    #: `"INFO"`. `None` leaves it to `PGJOBS["KEEP_LOGS"]`.
    keep_logs: str | None = None
    #: Names of arguments whose values are masked wherever the job is shown or sent.
    #: `"!s3_key"` says that a name only looks secret. `"return"` is the result.
    sensitive: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_queue_name(self.queue_name)
        check_whole("priority", self.priority, -100, 100)
        check_whole("max_attempts", self.max_attempts, 1, 32_767)
        check_whole("max_crashes", self.max_crashes, 1, 32_767)
        check_duration("timeout", self.timeout)
        check_choice("cancel", self.cancel, CANCEL)
        check_run_after(self.run_after)
        check_expires(self.expires, self.run_after)
        check_backoff(self.backoff)
        if not isinstance(self.atomic, bool):
            raise InvalidTask(f"atomic must be True or False, got {self.atomic!r}.")
        check_level(self.keep_logs)
        object.__setattr__(self, "sensitive", names_of(self.sensitive))
        for name in ("retry_on", "no_retry_on"):
            classes = exception_classes(name, getattr(self, name))
            object.__setattr__(self, name, classes)

    def check_sensitive(self, function: Callable) -> None:
        """Raise InvalidTask for a name that masks no argument of the function."""
        if takes_any_name(function):
            return
        known = named_parameters(function)
        for word in self.sensitive:
            if word == RESULT or word.startswith(HARMLESS):
                continue  # it may be a key of a result
            if not any(names_one_of((word,), name) for name in known):
                raise no_parameter(f"sensitive: {word!r}", function)

    @cached_property
    def time_limit(self) -> float | None:
        """The timeout in seconds."""
        if self.timeout is None:
            return None
        return non_negative_seconds("timeout", self.timeout)

    @cached_property
    def keeps_level(self) -> int | None:
        """The level from which on log records are kept with a job."""
        return log_level(self.keep_logs)

    def retries(self, error: BaseException) -> bool:
        """Whether a job that raised this error is tried again."""
        return isinstance(error, self.retry_on) and not isinstance(
            error, self.no_retry_on
        )

    def wait_after(self, job: Any, error: BaseException) -> float | None:
        """Return the seconds until the next attempt; None if there is to be none."""
        return non_negative_seconds("backoff", self.backoff(job.failures + 1))

    def new_job(self, task_name: str, stored: Stored) -> NewJob:
        """Return a job with these arguments, without its keys and dependencies."""
        # Many may be made at a time, and `NewJob(...)` would take four times as long.
        values = (task_name, *stored) + self.columns_in_order  # noqa: RUF005  (quicker)
        return tuple.__new__(NewJob, values)

    @cached_property
    def has_keys(self) -> bool:
        """Whether the jobs have a lock, a limit, a rate or a unique key."""
        return self.has_flow_control or self.is_unique

    @cached_property
    def has_callable_keys(self) -> bool:
        """Whether a function makes a key of a job's arguments."""
        return any(callable(getattr(self, name)) for name in (*KEYS, "unique_key"))

    @cached_property
    def own_keys(self) -> dict[str, Any]:
        """The part of `Job.keys` that does not depend on the arguments."""
        return self.fixed_keys()

    @cached_property
    def columns_in_order(self) -> tuple:
        return NewJob("", "", "", **self.columns)[3:]

    @cached_property
    def columns(self) -> dict[str, Any]:
        return self.fixed_columns()

    def fixed_columns(self) -> dict[str, Any]:
        return super().fixed_columns() | {
            "queue_name": self.queue_name,
            "priority": self.priority,
            "max_attempts": self.max_attempts,
            "max_crashes": self.max_crashes,
            "timeout": self.time_limit,
            "run_after": moment(self.run_after),
            "delay": delay(self.run_after),
            "expires_at": moment(self.expires),
            "expires_in": seconds(self.expires),
            "keys": self.own_keys or None,
            "on_conflict": self.on_conflict,
        }


# What features bring: groups of options, and what else `@task` may declare by options.
GROUPS = tuple(entries("options", "GROUPS"))
DECLARATIONS = tuple(entries("options", "DECLARATIONS"))


@dataclass(frozen=True, kw_only=True)
class Options(*GROUPS, OwnOptions):  # type: ignore[misc]  # mypy runs nothing
    """What `@task(...)` and `.using(...)` say about a task's jobs."""


def names_in(*groups: type) -> frozenset[str]:
    return frozenset(each.name for group in groups for each in fields(group))


# The options that a task takes, and those that a single job takes.
TASK_OPTIONS = names_in(Options) - {
    "run_after",
    *chain.from_iterable(group.only_of_jobs for group in GROUPS),
}
JOB_OPTIONS = names_in(Options) - {
    "cancel",
    "backoff",
    "retry_on",
    "no_retry_on",
    "atomic",
    "keep_logs",
    "sensitive",
    *names_in(*(group for group in GROUPS if not group.for_jobs)),
}
# The options of `@task` that declare something beside its jobs, and what they declare.
DECLARING = {name: made for made in DECLARATIONS for name in made.task_options}


class KeyOptions(FlowControlOptions, total=False):
    """For type checkers. Overloads have `on_conflict`: results depend on it."""

    unique: bool | tuple[str, ...]
    unique_key: Key
    unique_for: UniqueFor
    database: str


class OwnTaskOptions(KeyOptions, total=False):
    name: str | None
    aliases: Iterable[str]
    queue_name: str
    priority: int
    max_attempts: int
    max_crashes: int
    timeout: float | timedelta | None
    cancel: Literal["interrupt", "cooperative"]
    backoff: Backoff
    retry_on: type[BaseException] | tuple[type[BaseException], ...]
    no_retry_on: type[BaseException] | tuple[type[BaseException], ...]
    atomic: bool
    keep_logs: str
    sensitive: Iterable[str]
    expires: timedelta | None


class OwnJobOptions(KeyOptions, total=False):
    queue_name: str | None
    priority: int | None
    run_after: datetime | timedelta | None
    max_attempts: int | None
    max_crashes: int | None
    timeout: float | timedelta | None
    expires: datetime | timedelta | None


def check_task_options(options: Mapping[str, Any]) -> None:
    """Raise InvalidTask for what `@task` does not take."""
    known = {"name", "aliases", *TASK_OPTIONS, *DECLARING}
    check_known("@task", options, known)
    if isinstance(options.get("expires"), datetime):
        raise InvalidTask(
            "expires of a task must be a timedelta; a datetime belongs to one job: "
            "use .using(expires=...)."
        )


def check_job_options(options: Mapping[str, Any]) -> None:
    """Raise InvalidTask for what `.using` does not take."""
    check_known(".using", options, JOB_OPTIONS)


def check_known(where: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    unknown = options.keys() - set(known)
    if unknown:
        listed = ", ".join(sorted(map(repr, unknown)))
        cure = belonging(unknown) or meant(unknown, known)
        # A cure says enough: the names of all options are a wall.
        rest = "" if cure else f"; it has {', '.join(sorted(known))}"
        raise InvalidTask(f"{where} has no option {listed}{cure}{rest}.")


def belonging(unknown: Iterable[str]) -> str:
    """Return, as a part of a sentence, where options belong that others take."""
    places = {name: f".using({name}=...)" for name in JOB_OPTIONS}
    for declaration in DECLARATIONS:
        places |= declaration.places
    places |= {name: f"@task({name}=...)" for name in TASK_OPTIONS | DECLARING.keys()}
    listed = " and ".join(places[name] for name in sorted(unknown) if name in places)
    return f" (say {listed})" if listed else ""


def check_queue_name(name: Any) -> None:
    if not isinstance(name, str) or not QUEUE_NAME.fullmatch(name):
        raise InvalidTask(
            "queue_name must be 1 to 200 characters without commas or control "
            f"characters, and not begin or end with a space, got {name!r}."
        )


def check_backoff(value: Any) -> None:
    if not callable(value):
        raise InvalidTask(
            "backoff must be a callable from the number of failures to seconds, "
            f"such as exponential(), got {value!r}."
        )


def check_level(value: Any) -> None:
    try:
        log_level(value)
    except ValueError as error:
        raise InvalidTask(f"keep_logs {error}") from None


def names_of(value: Any) -> tuple[str, ...]:
    """Return the names that `sensitive` has; raise InvalidTask."""
    is_text = isinstance(value, str) or not isinstance(value, Iterable)
    names = () if is_text else tuple(value)
    if is_text or not all(isinstance(each, str) and each for each in names):
        raise InvalidTask(
            f'sensitive must be names of arguments, such as ("iban",), got {value!r}.'
        )
    try:
        return names_to_mask(names)
    except ValueError as error:
        raise InvalidTask(f"sensitive {error}") from None


def check_run_after(value: Any) -> None:
    """Raise InvalidTask unless it is a time. A time that has passed means now."""
    if not isinstance(value, timedelta) or value >= timedelta(0):
        check_time("run_after", value)


def check_time(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, timedelta):
        try:
            non_negative_seconds(name, value)
        except ValueError as error:
            raise InvalidTask(str(error)) from None
        return
    expected = "an aware datetime or a timedelta"
    if isinstance(value, int | float):
        expected += f", such as timedelta(seconds={value!r})"
    check_moment(name, value, expected)


def check_expires(value: Any, run_after: Any) -> None:
    check_time("expires", value)
    if value == timedelta(0):
        raise InvalidTask("expires must be more than 0 s.")
    if (
        isinstance(value, datetime)
        and isinstance(run_after, datetime)
        and aware(value) <= aware(run_after)
    ):
        raise InvalidTask(
            f"expires must be later than run_after, got {value!r} and {run_after!r}."
        )


def moment(value: datetime | timedelta | None) -> datetime | None:
    return aware(value) if isinstance(value, datetime) else None


def delay(value: datetime | timedelta | None) -> float | None:
    """Return the seconds to wait."""
    waits = seconds(value)
    return None if waits is None else max(waits, 0.0)


def seconds(value: datetime | timedelta | None) -> float | None:
    return value.total_seconds() if isinstance(value, timedelta) else None
