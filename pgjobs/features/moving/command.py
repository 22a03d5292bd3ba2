from django.core.management.base import CommandError
from django.db import IntegrityError

from ...management.auditing import audited
from ...management.parameters import (
    check_migrations,
    known_database,
    positive_seconds,
    queue_names,
)
from ...management.refusals import explained
from ...management.speaking import QuietCommand
from ..operating.enqueuing import arguments_of
from ..schedules.tables import Schedule
from .id_blocks import SameBlock
from .queue import CrossingLinks, Mover, Refused, Selection, StillRunning

NOUNS = {
    "pgjobs_job": "jobs",
    "pgjobs_schedule": "schedules",
    "pgjobs_event": "events",
    "pgjobs_batch": "batches",
}


class Command(QuietCommand):
    help = (
        "Move the jobs, schedules and events of a tenant to another database. Run it "
        "again after an interruption: nothing is lost, and nothing is done twice."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--from",
            required=True,
            metavar="ALIAS",
            dest="source",
            help="the database where the jobs are",
        )
        parser.add_argument(
            "--to",
            required=True,
            metavar="ALIAS",
            dest="destination",
            help="the database where they are to be",
        )
        parser.add_argument(
            "--arguments",
            metavar="JSON",
            help="""what the arguments or the payload must have: '{"tenant_id": 42}'""",
        )
        parser.add_argument(
            "--queues",
            type=queue_names,
            metavar="A,B",
            help="only jobs of these queues, and no schedules and events",
        )
        parser.add_argument(
            "--wait",
            type=positive_seconds,
            default=60.0,
            metavar="TIME",
            help="how long to wait for jobs that run (default: 60)",
        )

    def handle(self, **options):
        source = known_database(options["source"])
        destination = known_database(options["destination"])
        for alias in (source, destination):
            with explained(alias):
                check_migrations(alias)
        given = options["arguments"]
        arguments = None if given is None else arguments_of(given)
        try:
            selection = Selection(arguments, options["queues"])
            mover = Mover(source, destination, selection)
        except ValueError as error:
            raise CommandError(str(error)) from error
        moved = move(mover, options["wait"])
        if options["verbosity"]:
            self.stdout.write(f"Moved {in_words(moved)}.")
        for name in schedules_left(source, destination, selection):
            self.stderr.write(
                f"Schedule {name!r} goes on firing in {source!r}: code declares it, "
                f"and {destination!r} does not have it. Declare it for {destination!r}."
            )


def move(mover: Mover, patience: float) -> dict[str, int]:
    """Move, with an entry in the audit trail; raise CommandError with what to do."""
    source, destination = mover.source, mover.destination
    what = {"chosen": mover.selection.text, "note": f"to {destination}"}
    try:
        with audited(source, "move", "job", **what) as entry:
            try:
                moved = mover.move(patience)
            except (SameBlock, CrossingLinks) as error:
                raise CommandError(str(error)) from error
            entry.number = sum(moved.get(table, 0) for table in NOUNS)
    except StillRunning as error:
        raise CommandError(str(error)) from error
    except Refused as error:
        raise CommandError(
            f"The database {destination!r} refuses a row, and has taken none: "
            f"{error} What is packed waits in {source!r}. Remove what is in the way "
            f"in {destination!r} and run the command again."
        ) from error
    except IntegrityError as error:
        raise CommandError(
            f"The database {source!r} does not let a row go, to which another table "
            f"refers: {error} What is packed already waits there. Remove what refers "
            f"to it in {source!r} and run the command again."
        ) from error
    return moved


def in_words(moved: dict[str, int]) -> str:
    found = [f"{moved[name]} {noun}" for name, noun in NOUNS.items() if name in moved]
    return ", ".join(found) or "nothing"


def schedules_left(source: str, destination: str, selection: Selection) -> list[str]:
    """Return the declared schedules of the move that fire in the source alone."""
    if selection.arguments is None or selection.queues is not None:
        return []
    here = Schedule.objects.using(source).declared().active()
    there = Schedule.objects.using(destination).declared().filter(orphaned=False)
    chosen = here.filter(kwargs__contains=selection.arguments)
    chosen = chosen.order_by("name").values_list("name", flat=True)
    known = {*there.values_list("name", flat=True)}
    return [name for name in chosen if name not in known]
