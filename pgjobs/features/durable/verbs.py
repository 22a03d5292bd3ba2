"""What `manage.py jobs` does for jobs that wait: list, answer, end by hand."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction
from django.db.models.functions import Now

from ...exceptions import InvalidStep
from ...management.auditing import audited
from ...management.parameters import whole_number
from ...management.running import number_of
from ...management.tables import print_table
from ...models.job import Job
from ...models.job_choices import Status
from ...reports.json_text import is_secret
from ...reports.secrets import hiding
from ...reports.texts import one_line
from ...tasks.sensitive import sensitive_words
from ..operating.choosing import (
    Verb,
    add_common,
    add_filters,
    chosen,
    job_id,
    near,
)
from ..steps.running_job import check_name
from ..steps.tables import Step
from . import queue
from .answer_form import members_of
from .answering import answer, check_answer_name, mark_step
from .places import GROUP_TITLES, TITLES, Places, open_waits, sleeps
from .tables import Answer, Kind, Wait

Options = dict[str, Any]


def add_waits(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number,
        default=50,
        metavar="N",
        help="list at most so many; more are counted by task and name (default: 50)",
    )
    add_filters(parser)
    add_common(parser)


def list_waits(command: Any, alias: str, options: Options) -> None:
    limit = options["limit"]
    places = Places(alias, chosen(alias, options))
    found = places.each(limit + 1)
    if options["json"]:
        text = ",\n".join(json.dumps(place.as_json()) for place in found[:limit])
        command.stdout.write(f"[\n{text}\n]" if text else "[]")
    elif len(found) <= limit:
        rows = [place.row() for place in found]
        print_table(command.stdout, TITLES, rows, "No jobs wait.", (TITLES[-1],))
    else:
        print_groups(command, places, limit)
    if not found:
        command.refuse_unknown(alias, options)


def print_groups(command: Any, places: Places, limit: int) -> None:
    """Print how many wait where, the places with the most first."""
    groups = places.groups()
    rows = [group.row() for group in groups[:limit]]
    print_table(command.stdout, GROUP_TITLES, rows, "", (TITLES[-1],))
    if len(groups) > limit:
        hidden = number_of("place", len(groups) - limit)
        command.stdout.write(f"And {hidden} more: --limit shows more.")
    command.stdout.write(f"More than {limit} wait: --limit lists more one by one.")


def add_named(parser: ArgumentParser) -> None:
    parser.add_argument("id", type=job_id, metavar="ID", help="id of the job")
    parser.add_argument("name", metavar="NAME", help="as the task has it")
    parser.add_argument(
        "--value", required=True, metavar="JSON", help='such as true or {"paid": 12}'
    )
    add_common(parser)


def give_answer(command: Any, alias: str, options: Options) -> None:
    name, value = name_of(options, check_answer_name), value_of(options)
    job = newest_of(command, alias, options)
    wait = asked_wait(job, name)
    with audited(alias, "answer", "job", object_id=job.pk, note=name) as entry:
        try:
            with transaction.atomic(alias):
                entry.number = int(answer(job, name, value, None))
        except ValueError as error:
            faults = "\n".join(faults_of(wait, value, error))
            raise CommandError(faults, returncode=1) from None
        if not entry.number:
            raise refused(job, f"{shown(name)} was answered, or has ended, meanwhile.")
    report(command, options, f"Answered {shown(name)} of job {job.pk}.")


def mark_by_hand(command: Any, alias: str, options: Options) -> None:
    name, value = name_of(options, check_name), value_of(options)
    job = newest_of(command, alias, options)
    if job.pk != options["id"]:
        raise refused(job, f"job {options['id']} goes on as this one: mark it here.")
    check_markable(job, name)
    if hint := hint_of_name(alias, job, name):
        command.stderr.write(hint)
    with audited(alias, "mark_step", "job", object_id=job.pk, note=name) as entry:
        try:
            with transaction.atomic(alias):
                entry.number = int(mark_step(job, name, value))
        except InvalidStep as error:
            raise CommandError(str(error), returncode=1) from None
        if not entry.number:
            raise refused(job, "it has begun to run, or the step is done, meanwhile.")
    report(command, options, f"Marked {shown(name)} of job {job.pk} as done.")


# What both have in common


def name_of(options: Options, check: Callable[[str], None]) -> str:
    """Return the name that the operator gave; raise CommandError."""
    try:
        check(options["name"])
    except (ValueError, InvalidStep) as error:
        raise CommandError(str(error), returncode=2) from None
    return options["name"]


def value_of(options: Options) -> Any:
    """Return the value that the operator gave; raise CommandError."""
    try:
        return json.loads(options["value"])
    except (ValueError, RecursionError) as error:
        raise CommandError(
            f'--value: must be JSON, such as true, 12 or "text" with its quotes: '
            f"{error}.",
            returncode=2,
        ) from None


def newest_of(command: Any, alias: str, options: Options) -> Job:
    """Return the job, or the one as which it goes on now; raise CommandError."""
    if command.is_one_of_all:
        raise CommandError(
            "--database: name that of the job; each has jobs of its own.", returncode=2
        )
    newest = queue.newest(alias, options["id"])
    columns = ("task", "status", "life", "attempts")
    jobs = Job.objects.using(alias).only(*columns)
    if (job := jobs.filter(pk=newest).first()) is None:
        raise CommandError(f"There is no job {options['id']}.", returncode=1)
    return job


def refused(job: Job, why: str) -> CommandError:
    return CommandError(f"Job {job.pk}: {why} Nothing was changed.", returncode=1)


def report(command: Any, options: Options, text: str) -> None:
    changed = json.dumps({"changed": 1, "skipped": 0})
    command.stdout.write(changed if options["json"] else text)


def shown(name: str) -> str:
    return repr(one_line(name))


# Answers


def asked_wait(job: Job, name: str) -> Wait:
    """Return the open wait with this name; raise CommandError if none waits for it."""
    if job.is_finished:
        raise refused(job, f"it waits for nothing any more: it is {job.status}.")
    alias = job._state.db
    waits = list(Wait.objects.using(alias).filter(job=job.pk, life=job.life))
    named = [each for each in waits if name in (each.answer_name, each.name)]
    done = {"job_id": job.pk, "life": job.life, "name": name}
    if (
        Answer.objects.using(alias).filter(**done).exists()
        or Step.objects.using(alias).filter(**done).exists()
        or any(each.ended_at for each in named)
    ):
        raise refused(job, f"{shown(name)} was answered, or has ended, before.")
    for wait in named:
        if wait.kind == Kind.ANSWER and wait.answer_name == name:
            return wait
    if named and all(each.kind != Kind.ANSWER for each in named):
        raise refused(
            job,
            f"{shown(name)} waits for no answer: `jobs mark-step` ends it by hand.",
        )
    is_open = [each for each in waits if each.kind == Kind.ANSWER and not each.ended_at]
    known = {each.answer_name for each in is_open}
    raise refused(job, f"it does not ask for {shown(name)}. {near(name, known)}")


def faults_of(wait: Wait, value: Any, error: ValueError) -> Iterator[str]:
    """Yield what is wrong with an answer; what is sensitive is not repeated."""
    words = sensitive_words(wait.job.task)
    mask = hiding(words, json.dumps({wait.answer_name: value}))
    schema = wait.said("schema")
    faults = {}
    if isinstance(value, dict) and isinstance(schema, dict) and [*members_of(schema)]:
        alias = wait._state.db
        assert alias is not None  # it was read
        faults = queue.answer_faults(alias, schema, value)
    if not faults:
        yield without_value(mask(str(error)), wait.answer_name, words)
        return
    yield f"The answer to {shown(wait.answer_name)} does not fit:"
    for name, fault in faults.items():
        text = without_value(mask(fault), name, words)
        yield f"  {one_line(name)}: {one_line(text)}"


def without_value(text: str, name: str, words: tuple[str, ...]) -> str:
    return text.partition(", got ")[0] if is_secret(name, words) else text


# Steps


def check_markable(job: Job, name: str) -> None:
    """Raise CommandError if the step cannot be marked as done."""
    if job.status == Status.RUNNING:
        raise refused(job, "it runs. Cancel it, or wait until it waits or has ended.")
    if not job.attempts and job.life == 1:
        raise refused(job, "it has not begun.")
    done = Step.objects.using(job._state.db).filter(job=job.pk, life=job.life)
    if done.filter(name=name, finished_at__lte=Now()).exists():
        raise refused(job, f"{shown(name)} is done.")


def hint_of_name(alias: str, job: Job, name: str) -> str:
    """Return a sentence if the job does not stand at this name: it may be wrong."""
    this = {"job_id": job.pk}
    known = {*open_waits(alias).filter(**this).values_list("name", flat=True)}
    known |= {*sleeps(alias).filter(**this).values_list("name", flat=True)}
    if not known or name in known:
        return ""
    return (
        f"Job {job.pk} does not wait at {shown(name)}: the mark counts if its task "
        f"calls that. {near(name, known)}"
    )


VERBS = (
    Verb(
        "waits",
        "list which jobs wait or sleep where, such as before a deploy",
        add_waits,
        list_waits,
    ),
    Verb("answer", "answer what a job asks", add_named, give_answer),
    Verb(
        "mark-step",
        "mark a step, a sleep or a wait as done with a value, and let the job go on",
        add_named,
        mark_by_hand,
    ),
)
