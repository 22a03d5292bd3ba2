"""The options of `manage.py jobs` that say which jobs: the filters of the admin."""

from argparse import ArgumentParser, ArgumentTypeError
from functools import reduce
from operator import or_
from typing import Any

from django.core.management.base import CommandError

from ..base.ids import read_id
from ..models import Job
from ..models.job_set import JobQuerySet
from ..reports.job_filters import COMMAND_FILTERS, InvalidFilter

# The option, its metavar and its help, by the filter.
OPTIONS = {
    "status": ("--status", "STATUS", "such as failed or running"),
    "queue_name": ("--queue", "QUEUE", "jobs of this queue"),
    "task": ("--task", "TASK", "jobs of this task, by its full name"),
    "error": ("--error", "CLASS", "failed jobs whose last attempt raised this class"),
    "since": ("--since", "1h", "jobs that ended, or else were enqueued, since then"),
    "args": ("--args", "KEY=VALUE", "by an argument: customer_id=42, user.name=Ada"),
    "reason": ("--reason", "TEXT", "jobs whose reason holds this text"),
    "lock": ("--lock", "KEY", "jobs with this lock"),
    "unique": ("--unique", "KEY", "jobs with this unique key"),
    "worker": ("--worker", "WORKER", "jobs that this worker runs, by name or id"),
    "schedule": ("--schedule", "NAME", "jobs of this schedule, by name or id"),
    "event": ("--event", "ID", "jobs that deliver this event"),
    "batch": ("--batch", "ID", "jobs of this batch"),
}
# A job has one of each, so to repeat the option adds jobs.
SINGLE = ("status", "queue_name", "task")


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
            *(option,), dest=f"by_{name}", action="append", metavar=metavar, help=text
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
    match, option = COMMAND_FILTERS[name], OPTIONS[name][0]
    if not all(map(str.strip, texts)):
        raise CommandError(f"{option}: must not be empty.", returncode=2)
    try:
        if name in SINGLE:
            return reduce(or_, [match(jobs, text) for text in texts])
        return reduce(match, texts, jobs)
    except InvalidFilter as error:
        raise CommandError(f"{option}: {error}", returncode=2) from error
