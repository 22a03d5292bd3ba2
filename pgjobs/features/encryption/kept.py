"""What a job keeps beside its row, in the clear: its steps, and answers to it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from ...base.plain_json import dump, load
from ...exceptions import EncryptionError
from ...tasks import tables
from .sealing import MARK, RESULT, Seal, opened, seal_of, step
from .stored import opened_texts

MOST_VALUES = 200  # steps or answers that a page shows


class Kept(NamedTuple):
    kind: str  # step or answer
    name: str
    text: str  # JSON


def kept_of(job: Any, mark: Any, most: int | None = MOST_VALUES) -> Iterator[Kept]:
    """Yield what a job keeps, opened; None: all of it. Raises EncryptionError."""
    seal = seal_of(mark)
    database = job._state.db
    steps = tables.Step.objects.using(database).filter(
        job=job.pk, return_value__isnull=False
    )
    for name, text in named_texts(steps, "return_value", most):
        yield Kept("step", name, step_text(seal, name, text))
    answers = tables.Answer.objects.using(database).filter(job=job.pk)
    for name, text in named_texts(answers, "value", most):
        yield Kept("answer", name, text_at(seal, step(name), text))


def named_texts(values: QuerySet, column: str, most: int | None) -> Any:
    text = Cast(column, TextField())
    return values.order_by("pk").values_list("name", text)[:most]


def text_at(seal: Seal | None, place: str, text: str) -> str:
    """Return the JSON text of a whole value. Raises EncryptionError."""
    try:
        return dump(opened(seal, place, load(text)))
    except EncryptionError:
        raise
    except (ValueError, RecursionError):
        return text  # which SQL has stored, and Python cannot read


def step_text(seal: Seal | None, name: str, text: str) -> str:
    """Return what a step has. What is in it may have another place, or another seal."""
    text = text_at(seal, step(name), text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if isinstance(value, dict) and isinstance(value.get("label"), str):
        inner = opened(seal, step(value["label"]), value.get("value"))
        return dump({**value, "value": inner})
    if isinstance(value, list):
        return dump([with_plain_value(each) for each in value])
    return text


def with_plain_value(end: Any) -> Any:
    """Return how a job has ended for which this one waited, with the plain result."""
    if not isinstance(end, dict) or not isinstance(end.get("by"), str):
        return end
    own = {name: end[name] for name in end if name != "by"}
    return {**own, "value": opened(Seal(end["by"]), RESULT, end.get("value"))}


def secrets_of(job: Any) -> list[str]:
    """Return JSON texts of all that an encrypted job has: what to mask in other texts.

    A value that no key here opens is not among them.
    """
    mark = job.keys.get(MARK) if isinstance(job.keys, dict) else None
    if mark is None:
        return []
    texts = list(opened_texts(dump(job.args), dump(job.kwargs), job.keys))
    try:
        return [*texts, *(each.text for each in kept_of(job, mark, None))]
    except EncryptionError:
        return texts
