import json
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.db.models import Count
from django.db.models.functions import Left

from ...base.moments import instant
from ...base.queue_database import database_time
from ...conf import FINISHED
from ...exceptions import InvalidStep
from ...features import entries
from ...management.auditing import audited
from ...management.databases import QueueCommand
from ...management.parameters import ready_database, whole_number
from ...management.running import number_of
from ...management.speaking import examples_of
from ...management.tables import print_table
from ...models.job import Job
from ...models.job_choices import QUEUED, Status
from ...models.job_set import JobQuerySet
from ...queue.acts import Changed
from ...reports.durations import seconds_in_words
from ...reports.reasons import reasons
from ...reports.texts import excerpt, one_line
from ...tasks.sensitive import sensitive_words
from ..job_pages.job_rows import TEXTS, json_lines, some_rows
from ..steps.running_job import check_name
from ..steps.tables import number_without
from .choosing import (
    add_common,
    add_filters,
    are_chosen,
    check_ids,
    chosen,
    in_words,
    job_id,
    moment,
    near_misses,
    refuse,
)
from .shown_job import json_of, lines_of

LARGE_COLUMNS = ("args", "kwargs", "return_value", "reason", "keys", "dependencies")
LONGEST_CELL = 60
LONGEST_TEXT = 20_000
MOST_ATTEMPTS = 20


class Act(NamedTuple):
    run: Callable[..., Changed]
    statuses: tuple[Any, ...]  # of the jobs that it changes
    done: str
    help: str
    takes_reason: bool = False
    takes_steps: bool = False
    without_status: Any = None  # which jobs it means, if no option says


UNFINISHED = (*QUEUED, Status.RUNNING)
ACTS = {
    "retry": Act(
        JobQuerySet.retry,
        FINISHED,
        "Retried",
        "put finished jobs back in the queue (by a filter without --status: the failed "
        "ones only)",
        takes_steps=True,
        without_status=Status.FAILED,
    ),
    "cancel": Act(
        JobQuerySet.cancel,
        UNFINISHED,
        "Cancelled, or asked to stop,",
        "cancel queued jobs, and ask running ones to stop",
        takes_reason=True,
    ),
    "fail": Act(
        JobQuerySet.fail,
        UNFINISHED,
        "Failed",
        "end unfinished jobs as failed",
        takes_reason=True,
    ),
    "delete": Act(
        JobQuerySet.discard,
        (*QUEUED, *FINISHED),
        "Deleted",
        "delete jobs that do not run, with the record of their attempts",
    ),
    "run": Act(
        JobQuerySet.run_now,
        (Status.SCHEDULED,),
        "Made due:",
        "let scheduled jobs run now",
    ),
}


class Command(QueueCommand):
    help = "List, show and change jobs, with the filters of the admin's list."

    def add_arguments(self, parser):
        self.print_all_help = parser.print_help
        verbs = parser.add_subparsers(dest="verb", metavar="COMMAND")

        def add(name: str, text: str) -> ArgumentParser:
            return verbs.add_parser(name, help=text, **examples_of(f"jobs {name}"))

        listing = add("list", "list jobs, the newest first")
        listing.add_argument(
            "--limit",
            type=whole_number,
            default=50,
            metavar="N",
            help="list at most so many (default: 50)",
        )
        add_filters(listing)
        add_common(listing)
        showing = add("show", "show all about a job")
        showing.add_argument("id", type=job_id, metavar="ID", help="id of a job")
        add_common(showing)
        for verb, act in ACTS.items():
            add_act(add(verb, act.help), act)
        for each in entries("verbs", "VERBS"):
            each.add_arguments(add(each.name, each.help))

    def handle(self, **options):
        verb = options["verb"]
        if verb is None:
            self.print_all_help(self.stdout)
            return
        with ready_database(options["database"]) as alias:
            if verb == "list":
                self.list_jobs(alias, options)
            elif verb == "show":
                self.show(alias, options)
            elif verb in ACTS:
                self.act(alias, verb, options)
            else:
                of_features = {each.name: each for each in entries("verbs", "VERBS")}
                of_features[verb].run(self, alias, options)

    # List

    def list_jobs(self, alias: str, options: dict[str, Any]) -> None:
        limit = options["limit"]
        found = chosen(alias, options).defer(*LARGE_COLUMNS).order_by("-pk")
        jobs = list(found.annotate(reason_start=Left("reason", 200))[: limit + 1])
        if options["json"]:
            ids = [job.pk for job in jobs[:limit]]
            self.stdout.writelines(
                json_lines(some_rows(alias, ids, TEXTS, cache(sensitive_words)))
            )
        if not jobs:
            self.refuse_unknown(alias, options)
        if options["json"]:
            return
        self.print_jobs(alias, jobs[:limit])
        if len(jobs) > limit:
            self.stderr.write(f"There are more than {limit}: --limit shows more.")

    def print_jobs(self, alias: str, jobs: list[Job]) -> None:
        why = reasons(alias, jobs)
        shown_time = ago(alias) if self.stdout.isatty() else moment
        rows = [
            (
                job.pk,
                job.status,
                one_line(job.task),
                one_line(job.queue_name),
                shown_time(job.finished_at or job.last_attempted_at or job.enqueued_at),
                excerpt(
                    why[job.pk].text if job.pk in why else job.reason_start,
                    LONGEST_CELL,
                ),
            )
            for job in jobs
        ]
        titles = ("id", "status", "task", "queue", "latest", "reason")
        long = ("task", "queue", "reason")
        print_table(self.stdout, titles, rows, "No jobs match.", long)

    # Show

    def show(self, alias: str, options: dict[str, Any]) -> None:
        job = Job.objects.using(alias).defer(*LARGE_COLUMNS).filter(pk=options["id"])
        found = job.first()
        if found is None:
            raise CommandError(
                f"There is no job {options['id']}. It was pruned or deleted, as a "
                "success is with keep='failed', if there was one.",
                returncode=1,
            )
        if options["json"]:
            self.stdout.write(json_of(alias, found))
            return
        for line in lines_of(alias, found):
            self.stdout.write(line)

    # Acts

    def act(self, alias: str, verb: str, options: dict[str, Any]) -> None:
        act = ACTS[verb]
        if not are_chosen(options):
            raise CommandError(
                f"Say which jobs to {verb}: by id or by a filter, such as "
                "--status failed.",
                returncode=2,
            )
        if not self.is_one_of_all:
            check_ids(alias, options["ids"])
        jobs = chosen(alias, options)
        if act.without_status and not (options["ids"] or options["by_status"]):
            jobs = jobs.with_status(act.without_status)
        if limit := options["limit"]:
            jobs = first_of(jobs, act, limit)
        if until := options.get("until"):
            self.print_without(jobs, until)
        if options["dry_run"]:
            if not self.report_dry_run(act, verb, jobs, options["json"]):
                self.refuse_unknown(alias, options)
            return
        if is_asked(options) and not self.is_confirmed(act, verb, jobs):
            raise CommandError("Nothing was changed.", returncode=1)
        words, note = words_of(options)
        with audited(alias, verb, "job", chosen=in_words(options), note=note) as entry:
            changed = act.run(jobs, **words)
            entry.number = changed.changed
        self.report(act, changed, options["json"])
        if not any(changed):
            self.refuse_unknown(alias, options)

    def print_without(self, jobs, until: str) -> None:
        """Say on stderr how many jobs keep all steps: they have not done this one."""
        if number := number_without(jobs, until):
            have, keep = ("has", "keeps") if number == 1 else ("have", "keep")
            self.stderr.write(
                f"{number_of('job', number)} {have} not done the step "
                f"{one_line(until)!r}, and {keep} all finished steps."
            )

    def refuse_unknown(self, alias: str, options: dict[str, Any]) -> None:
        """Raise CommandError if there is no job because a filter names nothing."""
        refuse(self, list(near_misses(alias, options)))

    def is_confirmed(self, act: Act, verb: str, jobs) -> bool:
        self.report_dry_run(act, verb, jobs, as_json=False)
        try:
            return input("Go on? [y/N] ").strip().lower() in ("y", "yes")
        except EOFError:
            return False

    def report_dry_run(self, act: Act, verb: str, jobs, as_json: bool) -> bool:
        """Say how many jobs there are; return whether there are any."""
        counts = jobs.order_by().values_list("status").annotate(Count("pk"))
        numbers: dict[str, int] = dict(counts)
        number = sum(numbers.get(each, 0) for each in act.statuses)
        if as_json:
            shown = {"would_change": number, "statuses": numbers}
            self.stdout.write(json.dumps(shown))
            return bool(numbers)
        self.stdout.write(f"Would {verb} {number_of('job', number)}.")
        for status, each in sorted(numbers.items()):
            skipped = "" if status in act.statuses else " (skipped)"
            self.stdout.write(f"  {each} {status}{skipped}")
        return bool(numbers)

    def report(self, act: Act, changed: Changed, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(changed._asdict()))
            return
        skipped = f" Skipped {changed.skipped}." if changed.skipped else ""
        self.stdout.write(f"{act.done} {number_of('job', changed.changed)}.{skipped}")


def ago(alias: str) -> Callable[[datetime], str]:
    """Return what says how long ago a moment was, in few characters."""
    now = database_time(alias)
    return lambda time: seconds_in_words((now - instant(time)).total_seconds())


def words_of(options: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Return what the act is told, and what the audit trail notes of that."""
    if reason := options.get("because"):
        return {"reason": reason}, reason
    if until := options.get("until"):
        return {"until": until}, f"until {until}"
    if options.get("keep_steps"):
        return {"keep_steps": True}, "keep steps"
    return {}, ""


def first_of(jobs: JobQuerySet, act: Act, limit: int) -> JobQuerySet:
    """Return the oldest of the jobs that the act changes: `limit` of them at most."""
    oldest = jobs.filter(status__in=act.statuses).order_by("pk")
    return jobs.filter(pk__in=[*oldest.values_list("pk", flat=True)[:limit]])


def add_act(parser, act: Act) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number,
        metavar="N",
        help="only the oldest N of the jobs that this can change",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="only say how many jobs there are"
    )
    parser.add_argument(
        "--no-input",
        "--noinput",
        dest="interactive",
        action="store_false",
        help="do not ask; scripts are never asked",
    )
    if act.takes_reason:
        parser.add_argument("--because", metavar="TEXT", help="shown with the jobs")
    if act.takes_steps:
        steps = parser.add_mutually_exclusive_group()
        steps.add_argument(
            "--keep-steps", action="store_true", help="go on after the steps done"
        )
        steps.add_argument(
            "--until",
            type=step_name,
            metavar="NAME",
            help="go on at this step, and keep those before it",
        )
    add_filters(parser)
    add_common(parser)


def step_name(text: str) -> str:
    try:
        check_name(text)
    except InvalidStep as error:
        raise ArgumentTypeError(str(error)) from None
    return text


def is_asked(options: dict[str, Any]) -> bool:
    """Whether to ask first: a person at a terminal gave filters, and no ids."""
    is_terminal = sys.stdin is not None and sys.stdin.isatty()
    is_meant = options["interactive"] and not options["json"]
    return is_terminal and is_meant and not options["ids"]
