"""Jobs as calls of their tasks, on one line: `shop.charge(order_id=7, note=Later)`."""

import json
from collections.abc import Iterator

from django.db.models import Case, Func, IntegerField, TextField, Value, When
from django.db.models.functions import Cast, Left
from django.db.models.lookups import LessThan

from ..models.job import Job
from ..reports.json_text import CLOSING, OPENING, is_secret, masked, tokens
from ..reports.task_words import OWN, Words, with_own
from ..tasks.registry import registry
from ..tasks.sensitive import sensitive_by_task

LONGEST_ARGUMENTS = 500  # characters that are fetched for the list
LARGE = 2_000  # bytes of arguments


def add_arguments(jobs: list[Job]) -> None:
    """Give the jobs of a list their arguments, as far as a line has room for them.

    Large ones are not even read: to cut one, the server would fetch all of it.
    """
    size = Func("kwargs", function="pg_column_size", output_field=IntegerField())
    text = Left(Cast("kwargs", TextField()), LONGEST_ARGUMENTS)
    small = When(LessThan(size, LARGE), then=text)
    shown = Job.objects.filter(pk__in=[job.pk for job in jobs])
    rows = shown.values_list("pk", Case(small, default=Value("{…}")), OWN)
    texts = {pk: (text, own) for pk, text, own in rows}
    words = sensitive_by_task({job.task for job in jobs})
    defaults = {task: defaults_of(task) for task in words}
    for job in jobs:
        text, own = texts.get(job.pk, ("{}", None))
        own_words = with_own(words[job.task], own)
        job.shown_arguments = arguments(text, own_words, defaults[job.task])


def arguments(text: str, words: Words, defaults: dict[str, str | None]) -> str:
    """Return the JSON text of arguments, secrets masked, as a call has them.

    They stand in the order of the signature, without those that have their defaults.
    """
    order = {name: place for place, name in enumerate(defaults)}
    pairs = [
        (name, value)
        for name, value in pairs_of(masked(tokens(text), is_secret, words))
        if value != defaults.get(name)
    ]
    pairs.sort(key=lambda pair: order.get(pair[0], len(order)))
    return ", ".join(
        f"{name}={bare(value)}" if name else value for name, value in pairs
    )


def defaults_of(task: str) -> dict[str, str | None]:
    """Return the parameters of a task, in their order, with defaults as JSON text."""
    found = registry.find(task)
    if found is None:
        return {}
    return {
        name: None if each.default is each.empty else as_json(each.default)
        for name, each in found.signature.signature.parameters.items()
    }


def as_json(value: object) -> str | None:
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return "".join(tokens(text))


def pairs_of(tokens: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a JSON object, whose text may be cut anywhere."""
    depth, name, value = 0, "", ""
    for each in tokens:
        depth -= each in CLOSING
        if depth == 1 and each == ":" and not name:
            name, value = bare(value), ""
        elif value and (depth == 0 or (depth == 1 and each == ",")):
            yield name, value
            name, value = "", ""
        elif depth > 0:
            value += each
        depth += each in OPENING
    if name or value:  # it was cut
        yield name, f"{bare(value)}…"


def bare(value: str) -> str:
    """Return the text of a JSON string as it is read, and any other as it stands."""
    if not value.startswith('"'):
        return value
    try:
        return json.loads(value)
    except ValueError:  # it was cut
        return value.strip('"')
