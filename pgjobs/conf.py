"""The settings: one dict, `PGJOBS`, in the project's settings; every key optional.

    from pgjobs.conf import settings
    settings.POLL_INTERVAL        # override_settings just works

Durations are given in seconds or as timedeltas, and read as seconds.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .exceptions import non_negative_seconds

MOST_UNITS = 10**15  # a petabyte, if they are bytes
FINISHED = ("SUCCESSFUL", "FAILED", "CANCELLED")


def text(value):
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a non-empty string, got {value!r}.")
    return value


def texts(value):
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of strings, got {value!r}.")
    return tuple(text(each) for each in value)


def whole_number(value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number of at least 1, got {value!r}.")
    return value


def units(value):
    if value is not None and whole_number(value) > MOST_UNITS:
        raise ValueError(f"must be at most {MOST_UNITS}, got {value!r}.")
    return value


def seconds(value):
    try:
        return non_negative_seconds("it", value)
    except ValueError as error:
        raise ValueError(str(error).removeprefix("it ")) from None


def positive_seconds(value):
    if not seconds(value) > 0:
        raise ValueError(f"must be more than 0 s, got {value!r}.")
    return seconds(value)


def time_limit(value):
    return None if value is None else positive_seconds(value)


def retention(value):
    """Return {status: seconds or None (kept)}; unnamed statuses keep their default."""
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict of durations by status, got {value!r}.")
    for status in value:
        if status not in FINISHED:
            raise ValueError(f"knows {', '.join(FINISHED)}, but not {status!r}.")
    given = {
        status: None if age is None else seconds(age) for status, age in value.items()
    }
    return DEFAULT_RETENTION | given


def listen(value):
    if value is True or value is False:
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ValueError(
        f"must be True, False or a dict of connection parameters, got {value!r}."
    )


# FAILED is the dead-letter box: a job leaves it only if an operator decides so.
DEFAULT_RETENTION = {
    "SUCCESSFUL": timedelta(days=7).total_seconds(),
    "CANCELLED": timedelta(days=7).total_seconds(),
    "FAILED": None,
}


class Setting(NamedTuple):
    default: Any
    read: Callable[[Any], Any]  # returns the value, or raises ValueError: the rule


SETTINGS = {
    # Alias of the database that holds the queue.
    "DATABASE": Setting("default", text),
    # Modules with tasks, beside the `tasks` module of each installed app.
    "TASK_MODULES": Setting((), texts),
    # Slots of a worker: jobs that it runs at the same time.
    "CONCURRENCY": Setting(4, whole_number),
    # Process units of a host, which the jobs of all its workers share; None: no limit.
    "PROCESS_UNITS": Setting(None, units),
    # Seconds that a job waits for units before those behind it must wait, too.
    "UNITS_PATIENCE": Setting(60.0, seconds),
    # Seconds between two looks at the queue while nothing wakes the worker.
    "POLL_INTERVAL": Setting(5.0, positive_seconds),
    # Seconds between two signs of life of a worker.
    "HEARTBEAT_INTERVAL": Setting(5.0, positive_seconds),
    # Seconds without a sign of life after which a worker counts as dead.
    "LEASE_DURATION": Setting(30.0, positive_seconds),
    # Seconds that an attempt may take if neither its job nor its task say; None: any.
    "TIMEOUT": Setting(None, time_limit),
    # Seconds to end in, after the time limit, until the attempt is given up.
    "TIMEOUT_GRACE": Setting(10.0, seconds),
    # How long finished jobs are kept, by status; None: for ever.
    "RETENTION": Setting(DEFAULT_RETENTION, retention),
    # False: poll only. A dict: connection parameters around a pooler (host, port...).
    "LISTEN": Setting(True, listen),
    # Largest JSON text of a job's arguments, and of its result.
    "MAX_ARGUMENT_BYTES": Setting(1_000_000, whole_number),
    "MAX_RESULT_BYTES": Setting(1_000_000, whole_number),
    # Age at which a job of a task that no code declares ends FAILED; 0: at once.
    "UNKNOWN_TASK_GRACE": Setting(600.0, seconds),
    # How long after an event was published with no subscriber one still gets it.
    "UNHANDLED_EVENT_GRACE": Setting(3_600.0, seconds),
    # How long events are kept; None: for ever.
    "EVENT_RETENTION": Setting(timedelta(days=30).total_seconds(), time_limit),
    # More names of arguments whose values the admin, exports and commands mask.
    "SENSITIVE": Setting((), texts),
    # How long the figures of each minute and of each hour are kept.
    "MINUTE_FIGURES_RETENTION": Setting(172_800.0, positive_seconds),
    "HOUR_FIGURES_RETENTION": Setting(7_776_000.0, positive_seconds),
    # Dotted path of `(request, job) -> bool`: who may see a job at its address.
    "STATUS_PERMISSION": Setting("pgjobs.views.holds_address", text),
}


NO_DICT = "PGJOBS must be a dict, got {!r}."


class Settings:
    """The settings in force, as attributes; a wrong one raises ImproperlyConfigured."""

    def __init__(self) -> None:
        self.database_in_use: str | None = None
        self.known: dict[str, Any] = {}  # each job asks for some

    @property
    def DATABASE(self) -> str:
        return self.database_in_use or self.get("DATABASE")

    @contextmanager
    def using_database(self, alias: str | None) -> Iterator[None]:
        """Let the whole process work on the queue of another database."""
        before, self.database_in_use = self.database_in_use, alias
        try:
            yield
        finally:
            self.database_in_use = before

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def get(self, name: str) -> Any:
        if name not in self.known:
            self.known[name] = self.read(name)
        return self.known[name]

    def read(self, name: str) -> Any:
        try:
            setting = SETTINGS[name]
        except KeyError:
            raise AttributeError(f"pgjobs has no setting {name!r}.") from None
        given = getattr(django_settings, "PGJOBS", {})
        if not isinstance(given, Mapping):
            raise ImproperlyConfigured(NO_DICT.format(given))
        if name not in given:
            return setting.default
        try:
            return setting.read(given[name])
        except ValueError as error:
            raise ImproperlyConfigured(f"PGJOBS[{name!r}] {error}") from None

    def forget(self, *, setting: str, **kwargs) -> None:
        """Read all settings again: a test has changed the project's settings."""
        if setting == "PGJOBS":
            self.known.clear()


class Problem(NamedTuple):
    message: str
    hint: str | None = None


def problems() -> Iterator[Problem]:
    """Yield what is wrong with `PGJOBS`."""
    given = getattr(django_settings, "PGJOBS", {})
    if not isinstance(given, Mapping):
        yield Problem(NO_DICT.format(given))
        return
    for name, value in given.items():
        yield from problems_of(name, value)


def problems_of(name, value) -> Iterator[Problem]:
    if name not in SETTINGS:
        near = difflib.get_close_matches(str(name), SETTINGS, n=1)
        known = f"The settings are {', '.join(SETTINGS)}."
        hint = f"Did you mean {near[0]!r}?" if near else known
        yield Problem(f"PGJOBS has no setting {name!r}.", hint)
        return
    try:
        SETTINGS[name].read(value)
    except ValueError as error:
        yield Problem(f"PGJOBS[{name!r}] {error}")


settings = Settings()
setting_changed.connect(settings.forget)
