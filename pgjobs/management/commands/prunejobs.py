from django.core.management.base import BaseCommand
from django.db import connections

from ...conf import FINISHED, settings
from ...models import work
from ..parameters import add_database, ready_database, seconds


class Command(BaseCommand):
    help = (
        "Delete finished jobs that are old enough. Workers do the same by "
        "themselves, as PGJOBS['RETENTION'] says."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--older",
            type=seconds,
            metavar="72h",
            help="delete what ended longer ago (default: PGJOBS['RETENTION'])",
        )
        parser.add_argument(
            "--status",
            action="append",
            choices=FINISHED,
            type=str.upper,
            help="delete only jobs of this status; may be repeated (default: all that "
            "are finished, with --older; else those that PGJOBS['RETENTION'] names)",
        )
        add_database(parser)

    def handle(self, **options):
        ages = dict(settings.RETENTION)
        if options["older"] is not None:
            ages = dict.fromkeys(FINISHED, options["older"])
        chosen = options["status"] or FINISHED
        ages = {status: age for status, age in ages.items() if status in chosen}
        with ready_database(options["database"]) as alias:
            pruned = prune(alias, ages)
        if options["verbosity"]:
            noun = "job" if pruned == 1 else "jobs"
            self.stdout.write(f"Deleted {pruned} {noun}.")


def prune(alias: str, ages: dict[str, float | None]) -> int:
    """Delete in batches, so that no transaction is long."""

    def execute(statement: str, parameters: dict) -> list[tuple]:
        with connections[alias].cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall()

    total = 0
    while batch := work.prune(execute, ages):
        total += batch
    return total
