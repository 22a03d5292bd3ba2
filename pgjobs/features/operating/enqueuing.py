import json
from argparse import ArgumentTypeError
from datetime import timedelta

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware

from ...exceptions import AlreadyEnqueued, InvalidArguments, InvalidTask, UnknownTask
from ...management.auditing import audited
from ...management.parameters import add_database, ready_database, seconds
from ...management.speaking import QuietCommand
from ...reports.texts import one_line
from ...tasks.lookup import get_task
from ...tasks.registry import registry

MOST_NAMES = 20  # of tasks, in an error


class Command(QuietCommand):
    help = (
        "Enqueue a job and print its id, or the id of the job that holds its unique "
        "key. With ALL there are several jobs: print all their ids."
    )

    def add_arguments(self, parser):
        parser.add_argument("name", help='the task, such as "reports.generate"')
        parser.add_argument(
            "given",
            nargs="*",
            metavar="NAME=VALUE",
            help="an argument: size=42, name=Ada or tags='[1, 2]'. What is no JSON is "
            "a text",
        )
        parser.add_argument(
            "--args",
            dest="arguments",
            default="{}",
            metavar="JSON",
            help="""an object with the arguments by name: '{"client_id": 42}'""",
        )
        parser.add_argument(
            "--run-after",
            metavar="WHEN",
            help="a time (2026-12-24T18:00+01:00) or a delay (90s, 15m, 72h, 7d)",
        )
        parser.add_argument(
            "--queue",
            dest="queue_name",
            metavar="NAME",
            help="the queue (default: that of the task)",
        )
        parser.add_argument(
            "--priority",
            type=int,
            metavar="-100..100",
            help="larger numbers start first (default: that of the task)",
        )
        add_database(parser)

    def handle(self, **options):
        with (
            ready_database(options["database"]) as alias,
            audited(alias, "enqueue", "job", chosen=options["name"]) as entry,
        ):
            enqueued = self.enqueue(options)
            jobs = enqueued if isinstance(enqueued, list) else [enqueued]
            entry.number = len([job for job in jobs if job is not None])
        if jobs in ([], [None]):
            self.stderr.write("Not enqueued: another job holds its unique key.")
            return
        for job in jobs:
            said = f"Job {job.pk} of {one_line(job.task)} is enqueued."
            self.stdout.write(said if self.stdout.isatty() else str(job.pk))

    def enqueue(self, options):
        arguments = arguments_of(options["arguments"]) | named_of(options["given"])
        try:
            task = get_task(options["name"])
            return task.using(
                queue_name=options["queue_name"],
                priority=options["priority"],
                run_after=run_after_of(options["run_after"]),
            ).enqueue(**arguments)
        except UnknownTask as error:
            others = "" if error.meant else f" There are: {known_tasks()}."
            raise CommandError(f"{error}{others}") from error
        except (AlreadyEnqueued, InvalidArguments, InvalidTask) as error:
            raise CommandError(str(error)) from error


def known_tasks() -> str:
    """Return the names of the tasks, but not a wall of them."""
    names = sorted(task.name for task in registry.all_tasks())
    listed = ", ".join(names[:MOST_NAMES]) or "none"
    more = len(names) - MOST_NAMES
    return f"{listed} and {more} more: see *Tasks* in the admin" if more > 0 else listed


def arguments_of(text: str) -> dict:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"--args is not JSON: {error}.") from error
    if not isinstance(arguments, dict):
        raise CommandError(f"--args must be a JSON object, got {text}.")
    return arguments


def named_of(given: list[str]) -> dict:
    """Return the arguments that were given as NAME=VALUE."""
    named = {}
    for each in given:
        name, sign, text = each.partition("=")
        if not name or not sign:
            raise CommandError(f"An argument must be NAME=VALUE, got {each!r}.")
        try:
            named[name] = json.loads(text)
        except (ValueError, RecursionError):
            named[name] = text
    return named


def run_after_of(text: str | None):
    """Return a datetime or a timedelta."""
    if text is None:
        return None
    try:
        if moment := parse_datetime(text):
            return make_aware(moment) if is_naive(moment) else moment
        return timedelta(seconds=seconds(text))
    except (ValueError, ArgumentTypeError) as error:
        raise CommandError(
            "--run-after must be a time such as 2026-12-24T18:00+01:00 or a delay such "
            f"as 15m, got {text!r}."
        ) from error
