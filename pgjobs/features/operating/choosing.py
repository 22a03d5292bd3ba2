"""How a verb of the command `jobs` is told which jobs it is about, and common parts."""

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from functools import cache, partial, reduce
from operator import or_
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db.models import Model, Q
from django.utils.translation import gettext as _

from ...base.ids import read_id
from ...base.moments import local
from ...features import entries
from ...management.parameters import add_database
from ...models.definition import TaskDefinition
from ...models.job import Job
from ...models.job_set import JobQuerySet
from ...models.queue import Queue
from ...models.worker import Worker
from ...reports.job_filters import (
    SEARCHES,
    InvalidFilter,
    Narrow,
    filters,
    has_argument,
    searching,
)
from ...reports.texts import one_line
from ...tasks.registry import registry


class Verb(NamedTuple):
    """A verb of a feature, which its `verbs.py` lists in `VERBS`."""

    name: str
    help: str
    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Any, str, dict[str, Any]], None]  # command, database, options


# The option, its metavar and its help, by the filter.
OPTIONS = {
    "status": ("--status", "STATUS", "such as failed or running"),
    "queue_name": ("--queue", "QUEUE", "jobs of this queue"),
    "task": ("--task", "TASK", "jobs of this task, by its full name"),
    "since": ("--since", "1h", "jobs that ended, or else were enqueued, since then"),
    "args": ("--args", "KEY=VALUE", "by an argument: customer_id=42, user.name=Ada"),
    "reason": ("--reason", "TEXT", "jobs whose reason holds this text"),
    "lock": ("--lock", "KEY", "jobs with this lock"),
    "unique": ("--unique", "KEY", "jobs with this unique key"),
    "worker": ("--worker", "WORKER", "jobs that this worker runs, by name or id"),
    **{e.name: e.option for e in entries("job_filters", "FILTERS") if e.option},
}
# A job has one of each, so to repeat the option adds jobs.
SINGLE = ("status", "queue_name", "task")
MOST_KNOWN = 1_000  # names that are compared, and jobs that are looked at for names
MOST_NAMED = 5
MOST_MISSING = 10  # ids that an error names


@cache
def command_filters() -> dict[str, Narrow]:
    """Return what commands offer; to find jobs, they read all of them if need be."""
    return {
        **filters(),
        **{name: searching(match) for name, match in SEARCHES.items()},
        "args": searching(has_pair),
    }


def has_pair(text: str) -> Q:
    """Match `key=value`, as commands take it."""
    key, sign, value = text.partition("=")
    if not key or not sign:
        problem = _("%(text)r is not like customer_id=42.")
        raise InvalidFilter(problem % {"text": text[:80]})
    return has_argument(key, value)


def job_id(text: str) -> int:
    id = read_id(text.removeprefix("#"))
    if id is None:
        raise ArgumentTypeError(f"must be the id of a job, got {text!r}.")
    return id


def add_filters(parser: ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", type=job_id, metavar="ID", help="id of a job")
    group = parser.add_argument_group(
        "filters",
        "Jobs that match all of them. Each may be repeated; several statuses, queues "
        "or tasks mean the jobs of each of them.",
    )
    for name, (option, metavar, text) in OPTIONS.items():
        group.add_argument(
            option, dest=f"by_{name}", action="append", metavar=metavar, help=text
        )


def are_chosen(options: dict[str, Any]) -> bool:
    """Whether the options name any jobs at all."""
    return bool(options["ids"] or any(options[f"by_{name}"] for name in OPTIONS))


def in_words(options: dict[str, Any]) -> str:
    """Return the options that name jobs, for the audit trail."""
    ids = [str(id) for id in options["ids"]]
    given = [
        f"{option} {text}"
        for name, (option, _metavar, _text) in OPTIONS.items()
        for text in options[f"by_{name}"] or ()
    ]
    return " ".join(ids + given)


def chosen(alias: str, options: dict[str, Any]) -> JobQuerySet:
    """Return the jobs that the options name; raise CommandError."""
    jobs = Job.objects.using(alias).all()
    if options["ids"]:
        jobs = jobs.filter(pk__in=options["ids"])
    for name in OPTIONS:
        if texts := options[f"by_{name}"]:
            jobs = filtered(jobs, name, texts)
    return jobs


def filtered(jobs: JobQuerySet, name: str, texts: list[str]) -> JobQuerySet:
    """Return the jobs that match a filter with all texts, or with one if a job has one.

    Raises CommandError.
    """
    match, option = command_filters()[name], OPTIONS[name][0]
    if not all(map(str.strip, texts)):
        raise CommandError(f"{option}: must not be empty.", returncode=2)
    try:
        if name in SINGLE:
            return reduce(or_, [match(jobs, text) for text in texts])
        return reduce(match, texts, jobs)
    except InvalidFilter as error:
        raise CommandError(f"{option}: {error}", returncode=2) from error


def near_misses(alias: str, options: dict[str, Any]) -> Iterator[str]:
    """Yield a sentence for each filter that names what there is not."""
    for name, (noun, names_of) in NAMES.items():
        for text in options[f"by_{name}"] or ():
            known = names_of(alias)
            if text not in known and not text.isdecimal():
                yield f"There is no {noun} {one_line(text)!r}. {near(text, known)}"
    for entry in entries("job_filters", "FILTERS"):
        if entry.near_misses is not None:
            for text in options[f"by_{entry.name}"] or ():
                yield from entry.near_misses(alias, text)


def refuse(command: Any, sentences: list[str]) -> None:
    """Raise CommandError with the sentences, if there are any.

    With `--database all` a name may be one of another database: then only print them.
    """
    if sentences and not command.is_one_of_all:
        raise CommandError("\n".join(sentences), returncode=1)
    for sentence in sentences:
        command.stderr.write(sentence)


def near(text: str, known: set[str]) -> str:
    found = get_close_matches(text, sorted(known), n=1)
    if found:
        return f"Did you mean {one_line(found[0])!r}?"
    some = sorted(known)[:MOST_NAMED]
    more = ", ..." if len(known) > len(some) else ""
    return f"There are: {', '.join(map(one_line, some)) or 'none'}{more}."


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
    "worker": ("worker", partial(names_in, Worker)),
    **{
        each.name: (each.name, partial(names_in, each.named))
        for each in entries("job_filters", "FILTERS")
        if each.named is not None
    },
}


def check_ids(alias: str, ids: list[int]) -> None:
    """Raise CommandError if there is no job with one of the ids."""
    there = Job.objects.using(alias).filter(pk__in=ids).values_list("pk", flat=True)
    missing = sorted({*ids} - {*there}) if ids else []
    if missing:
        listed = ", ".join(map(str, missing[:MOST_MISSING]))
        more = " and others" if len(missing) > MOST_MISSING else ""
        raise CommandError(
            f"There is no job {listed}{more}. Nothing was changed.", returncode=1
        )


def add_common(parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    add_database(parser, "all means each")


def moment(time) -> str:
    return "" if time is None else f"{local(time):%Y-%m-%d %H:%M:%S %Z}"
