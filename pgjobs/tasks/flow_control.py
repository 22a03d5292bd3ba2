"""Flow control: locks, limits and rates, and the keys by which jobs share them.

A key is a text, a text with placeholders such as "file-{path}", or a callable of the
task's arguments. Each job gets the text that its own arguments give.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..base.plain_json import check_text, dump_sorted, load
from ..exceptions import InvalidArguments, InvalidTask
from .option_checks import check_parameter, takes_any_name
from .option_group import OptionGroup

if TYPE_CHECKING:
    from .arguments import Signature, Stored

Key = str | Callable[..., str | None]

LONGEST_KEY = 500
MOST = 2_147_483_647
PERIODS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400}
RATE = re.compile(rf"([1-9][0-9]{{0,8}})/({'|'.join(PERIODS)})")
LOCK_MODES = ("ordered", "mutex")
KEYS = ("lock", "limit_key", "rate_key")  # the options that are keys


@dataclass(frozen=True, kw_only=True)
class FlowControl(OptionGroup):
    """The options of `@task(...)` and `.using(...)` for locks, limits and rates."""

    #: Key. Jobs of one lock run one at a time.
    lock: Key | None = None
    #: Jobs of a lock run in the order of their ids, or in any order (`"mutex"`).
    lock_mode: str = "ordered"
    #: How many jobs of the task, or of each `limit_key`, run at a time.
    max_running: int | None = None
    #: Key of the jobs that share `max_running`.
    limit_key: Key | None = None
    #: How many jobs of the task, or of each `rate_key`, may start: with
    #: `"100/minute"` at most 100 in any 60 seconds, over all workers.
    rate: str | None = None
    #: Key of the jobs that share a rate.
    rate_key: Key | None = None
    #: How many jobs may start at once, from 1 (evenly spaced: with `"100/minute"` one
    #: each 0.6 seconds) to the number of the rate (the default: no spacing).
    burst: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in KEYS:
            check_key(name, getattr(self, name))
        if self.lock_mode not in LOCK_MODES:
            raise InvalidTask(
                f"lock_mode must be 'ordered' or 'mutex', got {self.lock_mode!r}."
            )
        check_number("max_running", self.max_running)
        check_number("burst", self.burst)
        check_rate(self.rate)
        check_burst(self.rate, self.burst)
        for name, needed in (
            ("limit_key", "max_running"),
            ("rate_key", "rate"),
            ("burst", "rate"),
        ):
            if getattr(self, name) is not None and getattr(self, needed) is None:
                raise InvalidTask(f"{name} needs {needed}, which is not given.")

    @cached_property
    def has_flow_control(self) -> bool:
        """Whether the jobs have a lock, a limit or a rate."""
        return (self.lock, self.max_running, self.rate) != (None, None, None)

    def check(self, function: Callable) -> None:
        super().check(function)
        for name in KEYS:
            check_placeholders(name, getattr(self, name), function)

    def flow_control_keys(
        self, signature: "Signature", args: tuple, kwargs: dict, stored: "Stored"
    ) -> dict[str, Any]:
        """Return the keys of a job with these arguments, as the database reads them.

        Raises InvalidArguments unless each key is a text of 1 to 500 characters.
        """
        maker = KeyMaker(signature, args, kwargs, stored)
        return self.keys_made_by(maker.make, signature.task_name)

    def keys_made_by(
        self, make: Callable[[str, Key | None], Any], default: Any
    ) -> dict[str, Any]:
        """Return the keys of a job, each as `make` returns it.

        `default`: what stands for a limit's or rate's key if `make` returns None.
        """
        columns: dict[str, Any] = {}
        lock = make("lock", self.lock)
        if lock is not None:
            columns |= {"lock": lock, "is_ordered": self.lock_mode == "ordered"}
        if self.max_running is not None:
            key = make("limit_key", self.limit_key)
            columns["limit_key"] = default if key is None else key
            columns["max_running"] = self.max_running
        if self.rate is not None:
            key = make("rate_key", self.rate_key)
            columns["rate_key"] = default if key is None else key
            columns |= numbers_of_rate(self.rate, self.burst)
        return columns


class FlowControlOptions(TypedDict, total=False):
    """The same options, for type checkers."""

    lock: Key
    lock_mode: Literal["ordered", "mutex"]
    max_running: int
    limit_key: Key
    rate: str
    rate_key: Key
    burst: int


class KeyMaker:
    """Makes the keys of one job."""

    def __init__(self, signature, args, kwargs, stored):
        self.signature = signature
        self.args = args
        self.kwargs = kwargs
        self.stored = stored

    def make(self, name: str, key: Key | None) -> str | None:
        if key is None:
            return None
        made = self.called(name, key) if callable(key) else self.filled_in(name, key)
        if made is not None and (fault := fault_of_text(made)):
            raise self.invalid(name, fault)
        return made

    def called(self, name: str, key: Callable) -> Any:
        bound = self.signature.signature.bind(*self.args, **self.kwargs)
        bound.apply_defaults()
        try:
            return key(*bound.args, **bound.kwargs)
        except Exception as error:
            error.add_note(f"Raised by the {name} of task {self.signature.task_name}.")
            raise

    def filled_in(self, name: str, key: str) -> str:
        """Fill in the stored arguments, so that equal ones give equal keys."""
        if "{" not in key and "}" not in key:
            return key
        named = load(self.stored.kwargs)
        texts = {
            each: str(value) if type(value) in (str, int) else dump_sorted(value)
            for each, value in named.items()
        }
        try:
            return key.format_map(texts)
        except KeyError as error:
            raise self.invalid(name, f"{key!r} needs the argument {error}") from None

    def invalid(self, name: str, fault: str) -> InvalidArguments:
        return InvalidArguments(self.signature.task_name, {name: fault})


def key_of_arguments(task_name: str, arguments: Any) -> str:
    """Return a text that no other task and no other arguments have."""
    text = dump_sorted(arguments)
    key = f"{task_name}:{text}"
    if len(key) <= LONGEST_KEY:
        return key
    return f"{task_name}:sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def check_key(name: str, key: Any) -> None:
    if key is None or (callable(key) and not isinstance(key, type)):
        return
    if fault := fault_of_text(key):
        raise InvalidTask(f"{name} {fault}.")
    try:
        fields = list(placeholders(key))
    except ValueError as error:
        raise InvalidTask(f"{name} {key!r} cannot be read: {error}.") from None
    for field in fields:
        if not field.isidentifier():
            raise InvalidTask(
                f"{name} {key!r}: a placeholder must be the name of a parameter alone, "
                f"got {{{field}}}. A callable of the arguments can do more."
            )


def fault_of_text(key: Any) -> str | None:
    if not isinstance(key, str):
        return f"must be a text of 1 to {LONGEST_KEY} characters, got {key!r}"
    if not 1 <= len(key) <= LONGEST_KEY:
        return f"must be 1 to {LONGEST_KEY} characters long, got {len(key)}"
    try:
        check_text(key)
    except ValueError as error:
        return str(error)
    return None


def placeholders(key: str) -> Iterator[str]:
    """Yield the names between the braces."""
    for _, field, format_spec, conversion in Formatter().parse(key):
        if field is not None:
            conversion = f"!{conversion}" if conversion else ""
            yield field + conversion + (f":{format_spec}" if format_spec else "")


def check_placeholders(name: str, key: Key | None, function: Callable) -> None:
    if not isinstance(key, str) or takes_any_name(function):
        return  # of any name, a missing argument raises at enqueue
    for field in placeholders(key):
        check_parameter(f"{name} {key!r}: {{{field}}}", field, function)


def check_number(name: str, value: Any) -> None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (whole and 1 <= value <= MOST):
        raise InvalidTask(
            f"{name} must be a whole number of at least 1, got {value!r}."
        )


def check_rate(rate: Any) -> None:
    if rate is not None and not (isinstance(rate, str) and RATE.fullmatch(rate)):
        raise InvalidTask(
            f"rate must be a number per {', '.join(PERIODS)}, such as '100/minute', "
            f"got {rate!r}."
        )


def check_burst(rate: str | None, burst: int | None) -> None:
    """Raise InvalidTask for a burst that is more than the rate admits in its period."""
    if rate is None or burst is None:
        return
    count, _ = read_rate(rate)
    if burst > count:
        raise InvalidTask(
            f"burst must be at most {count} with rate={rate!r}, because no more jobs "
            f"start in its period, got {burst}."
        )


def numbers_of_rate(rate: str, burst: int | None) -> dict[str, Any]:
    """Return the numbers of a rate, as the database reads them.

    Without `rate_number` the burst is the number of the rate.
    """
    count, seconds = read_rate(rate)
    numbers: dict[str, Any] = {"rate_interval": seconds / count}
    numbers["rate_burst"] = count if burst is None else burst
    if numbers["rate_burst"] != count:
        numbers["rate_number"] = count
    return numbers


def read_rate(rate: str) -> tuple[int, int]:
    """Return how many jobs a rate allows, and in how many seconds."""
    count, _, period = rate.partition("/")
    return int(count), PERIODS[period]
