"""What others than the worker read and store of an encrypted job."""

import json
from collections.abc import Collection, Iterator
from copy import copy
from inspect import Parameter
from typing import Any

from ...base.plain_json import dump, load
from ...exceptions import EncryptionError
from ...queue.new_job import NewJob
from ...queue.statements import execute_on
from ...sql import statement
from ...tasks.arguments import Stored
from ...tasks.registry import registry
from ...tasks.stored_jobs import job_of
from .marking import marks
from .sealing import (
    MARK,
    REST,
    RESULT,
    Seal,
    close_arguments,
    open_arguments,
    seal_of,
)


def mark_of(database: str, job_id: int) -> Any:
    """Return the mark of a job, or of that as which it goes on; None if it has none."""
    rows = execute_on(database)(statement("encrypted_mark"), {"id": job_id})
    text = rows[0][0] if rows else None
    return None if text is None else json.loads(text)


def sealed_for(database: str, job_id: int, place: str, text: str) -> str:
    """Return what is stored of a JSON text at a place of a job.

    Raises EncryptionError.
    """
    seal = seal_of(mark_of(database, job_id))
    return text if seal is None else seal.whole(place, text)


def made_again(task: str, stored: Stored, mark: str | None) -> NewJob:
    """Return another job like one that has these arguments, and this mark if any.

    What was encrypted is so again, whatever the task says now: it may have come of
    the result of another job. Raises EncryptionError.
    """
    if mark is None:
        return job_of(task, stored)
    before = read(mark)
    plain = open_arguments(stored.args, stored.kwargs, before)
    job = job_of(task, Stored(*plain))
    names = set(before.get("names") or ())
    return encrypted_too(job, names, bool(before.get(REST)))


def encrypted_too(job: NewJob, names: set[str], rest: bool) -> NewJob:
    """Return a new job with these arguments encrypted, too."""
    own = (job.keys or {}).get(MARK)
    mark = own or {"by": Seal.new().by, "names": []}
    names = names - set(mark["names"])
    rest = rest and not mark.get(REST)
    if own and not (names or rest):
        return job
    closed = close_arguments(
        job.args, job.kwargs, names.__contains__, rest, Seal(mark["by"])
    )
    both = {**mark, **closed.mark, "names": [*mark["names"], *closed.mark["names"]]}
    keys = {**(job.keys or {}), **marks(both)}
    return job._replace(args=closed.args, kwargs=closed.kwargs, keys=keys)


def enqueue_encrypted(
    task: Any, args: Any, kwargs: dict[str, Any], names: Collection[str]
) -> Any:
    """Enqueue a task with these arguments encrypted, too, whatever it says itself.

    Raises what `enqueue` does.
    """
    if all(map(task.options.covers, names)):
        return task.enqueue(*args, **kwargs)
    bound = task.bind(*args, **kwargs)
    bound.made = encrypted_too(bound.made, set(names), False)
    return bound.enqueue()


def opened_arguments(job: Any) -> dict[str, Any]:
    """Return the encrypted arguments of a row by name. Raises EncryptionError."""
    mark: Any = (job.keys or {}).get(MARK)
    if seal_of(mark) is None:
        return {}
    named = load(open_arguments(dump(job.args), dump(job.kwargs), mark)[1])
    return {name: named[name] for name in mark["names"] if name in named}


def opened_texts(args: str, kwargs: str, keys: Any) -> tuple[str, str]:
    """Return the JSON texts of arguments in the clear, as far as a key here opens them.

    They say what to mask in other texts.
    """
    mark = keys.get(MARK) if isinstance(keys, dict) else None
    try:
        return (args, kwargs) if mark is None else open_arguments(args, kwargs, mark)
    except EncryptionError:
        return args, kwargs


def with_plain_arguments(job: Any) -> Any:
    """Return a copy of a job whose arguments are in the clear, or the job itself."""
    if not isinstance(job.keys, dict) or MARK not in job.keys:
        return job
    args, kwargs = opened_texts(dump(job.args), dump(job.kwargs), job.keys)
    plain = copy(job)
    plain.args, plain.kwargs = load(args), load(kwargs)
    return plain


def read(mark: str) -> Any:
    try:
        return json.loads(mark)
    except (ValueError, RecursionError):
        return mark  # which is none: see seal_of


def own_values(database: str, ids: list[int], text: str) -> str | None:
    """Return what is stored of a result that an operator gives to these jobs.

    A JSON object by their ids, with those that are encrypted. Raises EncryptionError.
    """
    marks = execute_on(database)(statement("encrypted_marks"), {"ids": ids})
    whole = (
        f'"{id}":{seal.whole(RESULT, text)}'
        for id, mark in marks
        if (seal := seal_of(read(mark))) is not None
    )
    return f"{{{','.join(whole)}}}" if marks else None


def schedules_in_the_clear(schedules: Any) -> Iterator[tuple[str, str]]:
    """Yield schedules that have a value of an encrypted argument, and its name.

    A default of the code is none. Code that declares such a schedule is refused, but
    the row may be from before.
    """
    for each in schedules.iterator():
        task: Any = registry.find(each.task)
        for name, value in each.kwargs.items() if task else ():
            if task.options.covers(name) and value != default_of(task, name):
                yield each.name, name


def default_of(task: Any, name: str) -> Any:
    parameter = task.signature.parameters.get(name)
    if parameter is None or parameter.default is Parameter.empty:
        return Parameter.empty
    return parameter.hint.store(parameter.default)
