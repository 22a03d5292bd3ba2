"""What an operator may have meant by a filter that finds no job."""

from collections import Counter
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import partial
from typing import Any

from django.db.models import Model

from ..models import Job, Queue, Schedule, TaskDefinition, Worker
from ..reports.errors import failures, groups_with
from ..reports.job_filters import NO_EXCEPTION
from ..tasks.registry import registry
from .running import one_line

MOST_KNOWN = 1_000  # names that are compared, and jobs that are looked at for names
MOST_NAMED = 5


def near_misses(alias: str, options: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each filter that names what there is not."""
    for name, (noun, names_of) in NAMES.items():
        for text in options[f"by_{name}"] or ():
            known = names_of(alias)
            if text not in known and not text.isdecimal():
                yield f"There is no {noun} {one_line(text)!r}. {near(text, known)}"
    for text in options["by_error"] or ():
        if text != NO_EXCEPTION and not groups_with(alias, text):
            yield f"No job failed with {one_line(text)!r}. {errors(alias, text)}"


def near(text: str, known: set[str]) -> str:
    found = get_close_matches(text, sorted(known), n=1)
    if found:
        return f"Did you mean {one_line(found[0])!r}?"
    some = sorted(known)[:MOST_NAMED]
    more = ", ..." if len(known) > len(some) else ""
    return f"There are: {', '.join(map(one_line, some)) or 'none'}{more}."


def errors(alias: str, text: str) -> str:
    """Say which errors there were lately, the most frequent first."""
    numbers: Counter[str] = Counter()
    for group in failures(alias):
        if group.exception_class:
            numbers[group.exception_class] += group.number
    names = {each.rpartition(".")[2]: each for each in numbers}
    found = get_close_matches(text.rpartition(".")[2], names, n=1)
    meant = f"Did you mean {one_line(names[found[0]])!r}? " if found else ""
    some = numbers.most_common(MOST_NAMED)
    listed = ", ".join(f"{one_line(name)} ({number:,})" for name, number in some)
    return f"{meant}The latest failed with: {listed or 'no exception'}."


def of_newest_jobs(alias: str, column: str) -> set[str]:
    newest = Job.objects.using(alias).order_by("-pk")
    return {*newest.values_list(column, flat=True)[:MOST_KNOWN]}


def names_in(table: type[Model], alias: str) -> set[str]:
    names = table.objects.using(alias).order_by("name").values_list("name", flat=True)
    return {*names[:MOST_KNOWN]}


def tasks(alias: str) -> set[str]:
    known = names_in(TaskDefinition, alias) | {*registry.names()}
    return known | of_newest_jobs(alias, "task")


def queues(alias: str) -> set[str]:
    return names_in(Queue, alias) | of_newest_jobs(alias, "queue_name")


# By the filters: what they name, and how the names are found.
NAMES: dict[str, tuple[str, Callable[[str], set[str]]]] = {
    "task": ("task", tasks),
    "queue_name": ("queue", queues),
    "schedule": ("schedule", partial(names_in, Schedule)),
    "worker": ("worker", partial(names_in, Worker)),
}
