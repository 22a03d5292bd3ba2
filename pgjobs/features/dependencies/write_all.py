"""`ALL`: one job for each of the values that a parameter may have."""

from collections.abc import Iterator
from inspect import Parameter
from itertools import product
from typing import TYPE_CHECKING, Any

from django.db import transaction

from ...exceptions import InvalidArguments, InvalidTask
from ...queue.new_job import NewJob
from ...tasks import tables
from ..definitions.schemas import Schema, schema_of

if TYPE_CHECKING:
    from ...tasks.arguments import Signature
    from ...tasks.task import Task

IN_JSON = "ALL"  # what SQL and JSON say instead; Python may say so, too
MOST_JOBS = 10_000  # of one call


class All:
    """All values of a parameter. Its only instance is `ALL`."""

    fault_of_argument = (
        "is ALL, which only enqueue takes, for parameters that write_all names"
    )

    def __repr__(self) -> str:
        return IN_JSON


ALL: Any = All()  # for type checkers it fits every parameter


def names_of(given: Any) -> tuple[str, ...]:
    """Read names from a list, a tuple, or a text separated by commas."""
    names = given.split(",") if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or not all(
        isinstance(name, str) for name in names
    ):
        raise InvalidTask(f"write_all must be names of parameters, got {given!r}.")
    names = [name.strip() for name in names]
    if len(set(names)) < len(names):
        raise InvalidTask(f"write_all names a parameter twice, got {given!r}.")
    return tuple(names)


def values_of(signature: "Signature", name: str) -> list:
    parameter = signature.parameters[name]
    values = list(dict.fromkeys(choices_in(schema_of(parameter.hint))))
    where = f"{signature.task_name}: write_all names {name!r}"
    if not values:
        raise InvalidTask(
            f"{where}, which has no choices. Give it some: {name}: ['csv', 'json'], "
            "a Literal or an Enum."
        )
    if IN_JSON in values:
        raise InvalidTask(
            f"{where}, of which {IN_JSON!r} is a choice: it would mean two things."
        )
    return values


def choices_in(schema: Schema) -> Iterator[Any]:
    """Yield the choices except None, which means the lack of a value."""
    for each in schema.get("enum", ()):
        if each is not None:
            yield each
    for member in schema.get("anyOf", ()):
        yield from choices_in(member)


def expanded(
    signature: "Signature", values: dict[str, list], args: tuple, kwargs: dict
) -> list[tuple[tuple, dict]] | None:
    """Return the arguments of each job, or None if no parameter is ALL.

    Raises InvalidArguments.
    """
    by_position = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.takes_position and parameter.kind is not Parameter.VAR_POSITIONAL
    ]
    places: list[int | str] = []
    choices = []
    for name, all_values in values.items():
        place: int | str = name
        given = kwargs.get(name)
        if name in by_position[: len(args)]:
            place = by_position.index(name)
            given = args[place]
        if given is ALL or (isinstance(given, str) and given == IN_JSON):
            places.append(place)
            choices.append(all_values)
    if not places:
        return None
    check_number(signature, choices)
    return [
        replaced(args, kwargs, dict(zip(places, chosen, strict=True)))
        for chosen in product(*choices)
    ]


def replaced(args: tuple, kwargs: dict, chosen: dict) -> tuple[tuple, dict]:
    positional = tuple(chosen.get(place, value) for place, value in enumerate(args))
    named = {place: value for place, value in chosen.items() if isinstance(place, str)}
    return positional, {**kwargs, **named}


def check_number(signature: "Signature", choices: list[list]) -> None:
    number = 1
    for choice in choices:
        number *= len(choice)
    if number > MOST_JOBS:
        fault = f"would be {number} jobs, more than {MOST_JOBS} at once"
        raise InvalidArguments(signature.task_name, {IN_JSON: fault})


def insert_as_batch(task: "Task[..., Any, Any]", new_jobs: list[NewJob]) -> list:
    """Insert jobs of the task, all or none; return those that were not skipped.

    They are one batch, unless they belong to another one already.
    """
    database = task.options.own_database or tables.Job.objects.db_to_write
    with transaction.atomic(using=database):
        if task.options.batch is None:
            batches = tables.Batch.objects.using(database)
            batch = batches.create(description=task.name)
            new_jobs = [
                new_job._replace(keys={**(new_job.keys or {}), "batch_id": batch.pk})
                for new_job in new_jobs
            ]
        jobs = tables.Job.objects.db_manager(database).insert(new_jobs)
        return [job for job in jobs if job is not None]
