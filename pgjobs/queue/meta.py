"""What a new job takes along from where it was enqueued: its `meta`.

PGJOBS["META"] names functions that return a dict, and context variables. A job that
enqueues others hands its own `meta` on, with its id as `parent_id`, and with a
`correlation_id`. Without any of it there is no `meta`.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, ContextVar
from functools import cache, partial
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from ..base.dotted import named_in
from ..base.plain_json import check_json, dump
from ..base.transactions import sparing_transactions
from ..conf import settings
from .new_job import NewJob

logger = logging.getLogger("pgjobs.meta")

LARGEST = 2_000  # bytes of JSON. PostgreSQL writes it with spaces, and takes 4,000.
OWN = "metadata"  # the entry that a job does not hand on

Source = ContextVar[Any] | Callable[[], Any]
# What other modules add, such as `pgjobs.contrib.otel`.
added: list[Callable[[], dict[str, Any]]] = []
# Whether a source is asked right now. A job that it enqueues asks none.
is_asking: ContextVar[bool] = ContextVar("pgjobs_meta_is_asking", default=False)
# Of the job that runs here, for the jobs that it enqueues.
inherited: ContextVar[dict[str, Any]] = ContextVar("pgjobs_inherited_meta")


# Enqueueing


def with_meta(new_jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Return new jobs with what they take along from here, before their own."""
    if not (meta := collected()):
        return new_jobs
    return [
        job._replace(meta=f"{meta[:-1]},{job.meta[1:]}" if job.meta else meta)
        for job in new_jobs
    ]


def collected() -> str | None:
    """Return what a job that is enqueued here takes along, as JSON text."""
    parent = inherited.get(None)
    if parent is None and not added and not settings.META:
        return None
    meta = dict(parent or {})
    if not is_asking.get():
        token = is_asking.set(True)
        try:
            for name, read in readers():
                meta = joined(meta, name, read)
        finally:
            is_asking.reset(token)
    return dump(meta) if meta else None


def readers() -> Iterable[tuple[str, Callable[[], Any]]]:
    """Yield what is asked for `meta`, each with its name for the log."""
    for function in added:
        yield f"{function.__module__}.{function.__qualname__}", function
    for path in settings.META:
        yield path, partial(read_source, path)


def joined(meta: dict[str, Any], name: str, read: Callable[[], Any]) -> dict[str, Any]:
    """Return `meta` with what one source adds.

    A faulty source is logged and skipped, so that it keeps no job from being enqueued,
    and costs the caller's transaction nothing but what the source did in it.
    """
    try:
        with sparing_transactions():
            values = read() or {}
        if not isinstance(values, dict):
            raise TypeError(f"it must return a dict, got {type(values).__name__}")
        check_json(values)
        together = {**meta, **values}
        if (size := len(dump(together).encode())) > LARGEST:
            raise ValueError(f"with it, meta would be {size} bytes, not {LARGEST}")
    except Exception:
        logger.exception("PGJOBS['META'] source=%s failed and is skipped", name)
        return meta
    return together


def read_source(path: str) -> Any:
    variable = source(path)
    if not isinstance(variable, ContextVar):
        return variable()
    value = variable.get(None)
    return None if value is None else {variable.name: value}


@cache
def source(path: str) -> Source:
    """Return what PGJOBS["META"] names; raise ImproperlyConfigured."""
    named = named_in("META", path)
    if isinstance(named, ContextVar) or callable(named):
        return named
    raise ImproperlyConfigured(
        f"PGJOBS['META'] names {path!r}, which must be a function that returns a dict, "
        f"or a ContextVar, and is a {type(named).__name__}."
    )


# Running


def loaded(text: str) -> dict[str, Any]:
    """Return the `meta` of a claimed job; SQL may have put anything there."""
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return meta if isinstance(meta, dict) else {}


def is_used() -> bool:
    """Whether jobs that are enqueued in this process take anything along."""
    return bool(added or settings.META)


def restore(context: Context, job_id: int, meta: dict[str, Any]) -> None:
    """Set in a job's context what was set where it was enqueued."""
    context.run(inherited.set, handed_on(job_id, meta))
    for path in settings.META if meta else ():
        variable = variable_of(path)
        if variable is not None and variable.name in meta:
            context.run(variable.set, meta[variable.name])


def handed_on(job_id: int, meta: dict[str, Any]) -> dict[str, Any]:
    """Return what a job hands on to those that it enqueues."""
    # All jobs that this job leads to carry the same correlation id.
    meta = {"correlation_id": f"job-{job_id}", **meta, "parent_id": job_id}
    return {name: value for name, value in meta.items() if name != OWN}


def variable_of(path: str) -> ContextVar[Any] | None:
    """Return the context variable that a setting names, if it names one."""
    try:
        named = source(path)
    except ImproperlyConfigured:  # logged at each enqueueing
        return None
    return named if isinstance(named, ContextVar) else None
