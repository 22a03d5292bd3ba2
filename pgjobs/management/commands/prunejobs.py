from collections.abc import Callable

from django.core.management.base import BaseCommand

from ...conf import FINISHED, settings
from ...queue import events as outbox
from ...queue import upkeep
from ..parameters import add_database, ready_database, seconds


class Command(BaseCommand):
    help = (
        "Delete finished jobs, and events, that are old enough. Workers do it too, as "
        "PGJOBS['RETENTION'] and PGJOBS['EVENT_RETENTION'] say."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--older",
            type=seconds,
            metavar="72h",
            help="delete jobs that ended, and events that were published, longer ago "
            "(default: PGJOBS['RETENTION'] and PGJOBS['EVENT_RETENTION'])",
        )
        parser.add_argument(
            "--status",
            action="append",
            choices=FINISHED,
            type=str.upper,
            help="delete only jobs of this status; may be repeated (default: all that "
            "are finished, with --older; else those that PGJOBS['RETENTION'] names); "
            "no events",
        )
        add_database(parser)

    def handle(self, **options):
        older = options["older"]
        ages = dict.fromkeys(FINISHED, older) if older is not None else {}
        ages = settings.RETENTION | ages
        chosen = options["status"] or FINISHED
        ages = {status: age for status, age in ages.items() if status in chosen}
        age_of_events = settings.EVENT_RETENTION if older is None else older
        with ready_database(options["database"]) as alias:
            execute = outbox.execute_on(alias)
            jobs = in_batches(lambda: upkeep.prune(execute, ages))
            events = 0
            if not options["status"]:
                events = in_batches(lambda: outbox.prune(execute, age_of_events))
        if options["verbosity"]:
            deleted = [f"{jobs} {'job' if jobs == 1 else 'jobs'}"]
            if events:
                deleted.append(f"{events} {'event' if events == 1 else 'events'}")
            self.stdout.write(f"Deleted {' and '.join(deleted)}.")


def in_batches(prune: Callable[[], int]) -> int:
    """Delete in batches, so that no transaction is long; return how many."""
    total = 0
    while batch := prune():
        total += batch
    return total
