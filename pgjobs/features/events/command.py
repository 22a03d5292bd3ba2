from argparse import ArgumentTypeError
from datetime import datetime, timedelta

from django.core.management.base import CommandError
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive, make_aware

from ...base.queue_database import database_time
from ...management.auditing import audited
from ...management.parameters import add_database, ready_database, seconds
from ...management.speaking import QuietCommand
from .queue import replayable
from .tables import Delivered, Subscription, deliver_again


class Command(QuietCommand):
    help = (
        "Deliver events once more to one task: those that it got, and those that it "
        "did not get because it subscribed later."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--since",
            required=True,
            metavar="WHEN",
            help="events published since a time (2026-12-24T18:00+01:00), or within "
            "the last 90s, 15m, 72h or 7d",
        )
        parser.add_argument(
            "--to", required=True, metavar="TASK", help="a task that subscribes to them"
        )
        parser.add_argument(
            "--name",
            metavar="EVENT",
            help="only these events: a name, or tle.* (default: all to which the task "
            "subscribes)",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="only say how many there are"
        )
        add_database(parser)

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            check_subscribes(alias, options["to"])
            since = time_of(options["since"], database_time(alias))
            batches = replayable(alias, options["to"], since, options["name"])
            if options["dry_run"]:
                number = sum(map(len, batches))
                self.stdout.write(f"{events(number)} would be delivered.")
                return
            what = f"{options['name'] or '*'} since {since}, to {options['to']}"
            with audited(alias, "replay", "event", chosen=what) as entry:
                done = [deliver_again(alias, ids, options["to"]) for ids in batches]
                nothing = Delivered(0, 0, 0)
                made, again, skipped = map(sum, zip(nothing, *done, strict=True))
                entry.number = made + again
        if options["verbosity"]:
            self.stdout.write(
                f"Delivered {events(made + again)}: {made} for the first time, {again} "
                f"again. {skipped} on their way already."
            )


def check_subscribes(alias: str, task: str) -> None:
    tasks = set(
        Subscription.objects.using(alias).active().values_list("task", flat=True)
    )
    if task not in tasks:
        known = ", ".join(sorted(tasks))
        raise CommandError(
            f"No task {task!r} subscribes to events. Those that do: {known or 'none'}."
        )


def time_of(text: str, now: datetime) -> datetime:
    """Read a time, or a duration that is counted back from now."""
    try:
        if moment := parse_datetime(text):
            return make_aware(moment) if is_naive(moment) else moment
        return now - timedelta(seconds=seconds(text))
    except (ValueError, OverflowError, ArgumentTypeError) as error:
        raise CommandError(
            "--since must be a time such as 2026-12-24T18:00+01:00, or how long ago, "
            f"such as 72h, got {text!r}."
        ) from error


def events(number: int) -> str:
    return f"{number} event" if number == 1 else f"{number} events"
