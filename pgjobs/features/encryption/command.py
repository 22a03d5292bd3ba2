from django.core.management.base import CommandError

from ...exceptions import EncryptionError
from ...management.auditing import audited
from ...management.parameters import add_database, ready_database
from ...management.speaking import QuietCommand
from ...reports.texts import one_line
from ..moving.tables import Parcel
from ..schedules.tables import Schedule
from .keyring import keyring
from .reencrypting import Found, Outcome, old_keys, reencrypt
from .stored import schedules_in_the_clear

MOST_NAMED = 20


class Command(QuietCommand):
    help = (
        "Encrypt by the first key what an older one has encrypted, and what stands in "
        "the clear of tasks that are encrypted now. It works beside running workers. "
        "Exit code 1: something is left, which the output names."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--dry-run",
            action="store_true",
            help="only count what would be encrypted",
        )
        add_database(parser)

    def handle(self, **options):
        with ready_database(options["database"]) as database:
            self.report(database, stores=not options["dry_run"])

    def report(self, database: str, stores: bool) -> None:
        try:
            first, last = self.run_on(database, stores)
        except EncryptionError as error:
            raise CommandError(one_line(str(error))) from error
        verb = "Encrypted" if stores else "Would encrypt"
        self.stdout.write(
            f"{verb} {first.rows} rows anew, with {first.plain} values that stood in "
            "the clear."
        )
        moving = on_their_way(database)
        for id in old_keys():
            self.stdout.write(use_of(id, last, bool(moving)))
        left = [*last.unreadable, *left_of(last, stores), *moving]
        left += in_schedules(database)
        for line in left[:MOST_NAMED]:
            self.stderr.write(one_line(line))
        if len(left) > MOST_NAMED:
            self.stderr.write(f"... and {len(left) - MOST_NAMED} others")
        if left:
            raise SystemExit(1)

    def run_on(self, database: str, stores: bool) -> Outcome:
        if not stores:
            return reencrypt(database, stores)
        keyring().first.cipher  # noqa: B018  (raises before anything is audited)
        with audited(database, "reencrypt", "job") as entry:
            outcome = reencrypt(database, stores)
            entry.number = outcome.first.rows
        return outcome


def use_of(id: str, found: Found, is_moving: bool) -> str:
    number = found.by_key[id]
    if number:
        return f"Key {id} is in use by {number} values."
    if found.unreadable or is_moving:
        return f"Key {id} is in use by none of the values that can be read."
    return f"Key {id} is out of use: remove it from PGJOBS['ENCRYPTION_KEYS']."


def left_of(found: Found, stores: bool) -> list[str]:
    """Return what a run has left to the next one."""
    left = []
    if stores and found.rows:
        left.append(f"{found.rows} rows were held by others: run the command again.")
    if found.running:
        left.append(
            f"{found.running} jobs run whose values stand in the clear: run the "
            "command again once they have ended."
        )
    return left


def on_their_way(database: str) -> list[str]:
    """Return what is said if a move has rows, which no table has at the moment."""
    parcels = Parcel.objects.using(database).values_list("move", flat=True)
    return [
        f"Move {move} has rows on their way to another database: let it end, and run "
        "the command again, in both."
        for move in parcels.order_by("move").distinct()
    ]


def in_schedules(database: str) -> list[str]:
    schedules = Schedule.objects.using(database).order_by("pk")
    return [
        f"schedule {name}: {argument} stands in the clear; remove it there."
        for name, argument in schedules_in_the_clear(schedules)
    ]
