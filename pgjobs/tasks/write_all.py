"""`ALL`: one job for each of the values that a parameter may have."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter
from itertools import product
from typing import TYPE_CHECKING, Any

from django.db import transaction

from ..exceptions import InvalidArguments, InvalidTask
from ..queue.new_job import NewJob
from . import tables
from .option_checks import check_parameter
from .schemas import Schema, schema_of

if TYPE_CHECKING:
    from .arguments import Signature

IN_JSON = "ALL"  # what SQL and JSON say instead; Python may say so, too
MOST_JOBS = 10_000  # of one call


class All:
    """All values of a parameter. Its only instance is `ALL`."""

    def __repr__(self) -> str:
        return IN_JSON


ALL: Any = All()  # for type checkers it fits every parameter


@dataclass(frozen=True, kw_only=True)
class WriteAll:
    """The option of `@task(...)` for parameters that take `ALL`."""

    #: Names of parameters that take `ALL`: one job for each of their choices.
    write_all: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "write_all", names_of(self.write_all))

    def values(self, signature: "Signature") -> dict[str, list]:
        """Return the values of each parameter that takes ALL, in their JSON form.

        Raises InvalidTask for a parameter that has no choices.
        """
        return {
            name: values_of(signature, name)
            for name in signature.parameters  # in their order, not in that of write_all
            if name in self.write_all
        }

    def check_write_all(self, function: Callable) -> None:
        """Raise InvalidTask for a name that is no parameter of the function."""
        for name in self.write_all:
            check_parameter(f"write_all: {name!r}", name, function)


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
        each.name
        for each in signature.parameters.values()
        if each.takes_position and each.kind is not Parameter.VAR_POSITIONAL
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
    for each in choices:
        number *= len(each)
    if number > MOST_JOBS:
        fault = f"would be {number} jobs, more than {MOST_JOBS} at once"
        raise InvalidArguments(signature.task_name, {IN_JSON: fault})


def insert_as_batch(
    new_jobs: list[NewJob], database: str | None, description: str | None
) -> Any:
    """Insert jobs as one batch, all or none; return those that were not skipped.

    `database`: what the options say of it. `description`: that of the batch. It is None
    if the jobs already belong to a batch.
    """
    database = database or tables.Job.objects.db_to_write
    with transaction.atomic(using=database):
        if description is not None:
            batches = tables.Batch.objects.using(database)
            batch = batches.create(description=description)
            new_jobs = [
                each._replace(keys={**(each.keys or {}), "batch_id": batch.pk})
                for each in new_jobs
            ]
        jobs = tables.Job.objects.db_manager(database).insert(new_jobs)
        return [job for job in jobs if job is not None]
