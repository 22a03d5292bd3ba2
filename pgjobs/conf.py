"""The settings: one dict, `PGJOBS`, in the project's settings. Every key is optional.

    from pgjobs.conf import settings
    settings.POLL_INTERVAL        # override_settings just works

Durations are given in seconds or as timedeltas, and read as seconds.
"""

import difflib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, NamedTuple

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed

from .base.mask_names import names_to_mask
from .exceptions import non_negative_seconds

MOST_BYTES = 50_000_000  # of JSON that a row of the database may have
MOST_UNITS = 10**15  # a petabyte, if they are bytes
FINISHED = ("SUCCESSFUL", "FAILED", "CANCELLED")
MODES = ("queue", "inline", "manual")
KEEP = ("all", "failed")


def text(value):
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a non-empty string, got {value!r}.")
    return value


def version(value):
    if not isinstance(value, str) or len(value) > 200 or not value.isprintable():
        raise ValueError(f"must be a line of at most 200 characters, got {value!r}.")
    return value


def texts(value):
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise ValueError(f"must be a list of strings, got {value!r}.")
    return tuple(text(each) for each in value)


def keys(value):
    # Keys are quoted nowhere.
    if not isinstance(value, str | list | tuple):
        raise ValueError("must be a list of keys, or the dotted path of a callable.")
    return text(value) if isinstance(value, str) else tuple(value)


def aliases(value):
    found = None if value is None else texts(value)
    if found is not None and (not found or len(set(found)) < len(found)):
        raise ValueError(f"must be different aliases of databases, got {value!r}.")
    return found


def whole_number(value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number of at least 1, got {value!r}.")
    return value


def units(value):
    if value is not None and whole_number(value) > MOST_UNITS:
        raise ValueError(f"must be at most {MOST_UNITS}, got {value!r}.")
    return value


def size(value):
    if whole_number(value) > MOST_BYTES:
        raise ValueError(f"must be at most {MOST_BYTES}, got {value!r}.")
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


def log_level(value):
    """Return the number of a level, or None."""
    if value is None:
        return None
    level = logging.getLevelNamesMapping().get(value) if isinstance(value, str) else 0
    if not level:
        raise ValueError(f"must be a level such as 'INFO', or None, got {value!r}.")
    return level


def alerts(value):
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict by kinds of remarks, got {value!r}.")
    return dict(value)


def relation(value):
    if value not in ("parent", "link"):
        raise ValueError(f"must be 'parent' or 'link', got {value!r}.")
    return value


def retention(value):
    """Return {status: seconds}; None keeps jobs for ever.

    Statuses that the setting does not name keep their default.
    """
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a dict of durations by status, got {value!r}.")
    for status in value:
        if status not in FINISHED:
            raise ValueError(f"knows {', '.join(FINISHED)}, but not {status!r}.")
    given = {name: None if age is None else seconds(age) for name, age in value.items()}
    return DEFAULT_RETENTION | given


def mode(value):
    if value not in MODES:
        raise ValueError(f"must be one of {', '.join(MODES)}, got {value!r}.")
    return value


def keep(value):
    if value not in KEEP:
        raise ValueError(f"must be 'all' or 'failed', got {value!r}.")
    return value


def listen(value):
    if value is True or value is False:
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return dict(value)
    raise ValueError(
        f"must be True, False or a dict of connection parameters, got {value!r}."
    )


def is_by_alias(listen: Any) -> bool:
    """Whether the setting LISTEN has a dict for each of several databases."""
    values = listen.values() if isinstance(listen, dict) else ()
    return any(isinstance(value, Mapping) for value in values)


# FAILED is the dead-letter box: a job leaves it only if an operator decides so.
DEFAULT_RETENTION = {
    "SUCCESSFUL": timedelta(days=7).total_seconds(),
    "CANCELLED": timedelta(days=7).total_seconds(),
    "FAILED": None,
}


class Setting(NamedTuple):
    default: Any
    read: Callable[[Any], Any]  # returns the value, or raises ValueError: the rule
    about: str  # one or two sentences for the reference


SETTINGS = {
    "DATABASE": Setting("default", text, "Alias of the database that holds the queue."),
    "DATABASES": Setting(
        None,
        aliases,
        "Aliases of all databases with a queue, if there are several. `None` means "
        "`DATABASE`, or without it every PostgreSQL of `DATABASES` that pgjobs is "
        "migrated to.",
    ),
    "MODE": Setting(
        "queue",
        mode,
        'For tests and development: with `"inline"`, `enqueue` runs the job at once; '
        'with `"manual"` it only records the job. No worker starts in these two.',
    ),
    "TASK_MODULES": Setting(
        (),
        texts,
        "Modules with tasks, beside the `tasks` module of each installed app.",
    ),
    "CONCURRENCY": Setting(
        4, whole_number, "Slots of a worker: the jobs that it runs at the same time."
    ),
    "PROCESS_UNITS": Setting(
        None,
        units,
        "Process units of a host, which the jobs of all its workers share. "
        "`None` sets no limit.",
    ),
    "UNITS_PATIENCE": Setting(
        60.0,
        seconds,
        "Time that a job waits for units before those behind it must wait, too.",
    ),
    "POLL_INTERVAL": Setting(
        5.0,
        positive_seconds,
        "Time between two fetches while nothing wakes the worker.",
    ),
    "HEARTBEAT_INTERVAL": Setting(
        5.0, positive_seconds, "Time between two signs of life of a worker."
    ),
    "LEASE_DURATION": Setting(
        30.0,
        positive_seconds,
        "Time without a sign of life after which a worker counts as dead.",
    ),
    "TIMEOUT": Setting(
        None,
        time_limit,
        "Time that an attempt may take if neither its job nor its task sets a limit. "
        "`None` sets none.",
    ),
    "TIMEOUT_GRACE": Setting(
        10.0,
        seconds,
        "Time in which an attempt may end after its time limit. "
        "Then its worker abandons it.",
    ),
    "ISOLATED_JOBS_PER_CHILD": Setting(
        1_000,
        whole_number,
        "Jobs of tasks with `isolated=True` that a process runs before another one "
        "takes its place.",
    ),
    "RETENTION": Setting(
        DEFAULT_RETENTION,
        retention,
        "How long finished jobs are kept, by status. `None` keeps them for ever.",
    ),
    "KEEP": Setting(
        "all",
        keep,
        "Which finished jobs are kept where neither task nor job says it. With "
        '`"failed"`, a success is deleted at once, unless something needs it.',
    ),
    "LISTEN": Setting(
        True,
        listen,
        "`False` makes workers poll only. A dict names connection parameters "
        "(host, port...) that lead around a pooler, or has such a dict for the alias "
        "of each database that is behind one.",
    ),
    "MAX_ARGUMENT_BYTES": Setting(
        1_000_000, size, "Largest JSON text of a job's arguments."
    ),
    "MAX_RESULT_BYTES": Setting(
        1_000_000, size, "Largest JSON text of a job's result."
    ),
    "UNKNOWN_TASK_GRACE": Setting(
        600.0,
        seconds,
        "How long workers put a job back whose task they do not know. Then it FAILS.",
    ),
    "UNHANDLED_EVENT_GRACE": Setting(
        3_600.0,
        seconds,
        "How long after an event was published without a subscriber one still gets it.",
    ),
    "EVENT_RETENTION": Setting(
        timedelta(days=30).total_seconds(),
        time_limit,
        "How long events are kept. `None` keeps them for ever.",
    ),
    "META": Setting(
        (),
        texts,
        "Dotted paths of functions that return a dict, and of context variables: "
        "what new jobs take along from where they are enqueued.",
    ),
    "MIDDLEWARE": Setting(
        (),
        texts,
        "Dotted paths of what surrounds each attempt. The first one is the outermost.",
    ),
    "TRACES": Setting(
        "parent",
        relation,
        'With `"parent"`, a trace goes on in its jobs. With `"link"`, each job has a '
        "trace of its own, which links to it.",
    ),
    "KEEP_LOGS": Setting(
        None,
        log_level,
        'Level from which on log records are kept with their job, such as `"INFO"`. '
        "`None` keeps none.",
    ),
    "SENSITIVE": Setting(
        (), names_to_mask, 'More names to mask. `"!s3_key"`: it only looks secret.'
    ),
    "ENCRYPTION_KEYS": Setting(
        (),
        keys,
        "Keys of encrypted arguments and results: the first encrypts, and all decrypt. "
        "Or the dotted path of a callable that returns them.",
    ),
    "HASH_KEY": Setting(
        None,
        lambda value: value,
        "Key of `keyed_hash=True`, which never changes.",
    ),
    "MINUTE_FIGURES_RETENTION": Setting(
        172_800.0, positive_seconds, "How long the figures of each minute are kept."
    ),
    "HOUR_FIGURES_RETENTION": Setting(
        7_776_000.0, positive_seconds, "How long the figures of each hour are kept."
    ),
    "VERSION": Setting(
        "",
        version,
        "Version of the code, such as a git revision. Charts mark when it first ran, "
        "muted errors return in a new one, and of several the newest decides.",
    ),
    "ALERTS": Setting(
        {},
        alerts,
        "Limit and level of each kind of problem and remark: "
        '`{"queue_paused": "problem", "line_stuck": timedelta(hours=1)}`.',
    ),
    "AUDIT_RETENTION": Setting(
        timedelta(days=365).total_seconds(),
        positive_seconds,
        "How long the audit trail keeps the acts of people.",
    ),
    "STATUS_PERMISSION": Setting(
        "pgjobs.views.holds_address",
        text,
        "Dotted path of `(request, job) -> bool`: who may see a job at its address.",
    ),
}


# What a running job or a request works on, beside others of the process.
database_of_context: ContextVar[str | None] = ContextVar(
    "pgjobs_database", default=None
)

NO_DICT = "PGJOBS must be a dict, got {!r}."


class Settings:
    """The settings as attributes. A wrong one raises ImproperlyConfigured."""

    def __init__(self) -> None:
        self.database_of_process: str | None = None

    @property
    def DATABASE(self) -> str:
        return self.database_in_use or self.get("DATABASE")

    @property
    def database_in_use(self) -> str | None:
        """The database of the running job, request, command or worker, if any."""
        return database_of_context.get() or self.database_of_process

    @contextmanager
    def using_database(self, alias: str | None) -> Iterator[None]:
        """Use the queue of another database in the whole process."""
        before, self.database_of_process = self.database_of_process, alias
        try:
            yield
        finally:
            self.database_of_process = before

    @contextmanager
    def using_database_here(self, alias: str) -> Iterator[None]:
        """Use the queue of another database in this context only."""
        token = database_of_context.set(alias)
        try:
            yield
        finally:
            database_of_context.reset(token)

    def __getattr__(self, name: str) -> Any:
        # From then on it is an attribute, because each job reads some.
        value = vars(self)[name] = self.read(name)
        return value

    def get(self, name: str) -> Any:
        """Return a setting as it is given, also one that a property hides."""
        known = vars(self)
        return known[name] if name in known else self.__getattr__(name)

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
        """Read all settings again, after a test has changed them."""
        if setting == "PGJOBS":
            for name in SETTINGS:
                vars(self).pop(name, None)


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
