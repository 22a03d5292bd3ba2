from django.core.management.base import CommandError

from ...exceptions import InvalidTask
from ...management.databases import QueueCommand
from ...management.parameters import add_database, ready_database
from .declaring import store_for_an_hour
from .definitions import Synced, declared, differences

WORDS = {"new": "+", "changed": "~", "gone": "-"}


class Command(QueueCommand):
    help = (
        "Store the definitions of all tasks in the database, by which SQL checks "
        "arguments. 'migrate' and every worker do so, too."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "--check",
            action="store_true",
            help="change nothing; exit with code 1 if the database knows other tasks",
        )
        add_database(parser, "all means each")

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            try:
                tasks = declared()
            except InvalidTask as error:
                raise CommandError(str(error)) from error
            if options["check"]:
                self.check_synced(differences(alias, tasks), options["verbosity"])
                return
            self.report(store_for_an_hour(alias), len(tasks), options["verbosity"])

    def check_synced(self, found: Synced, verbosity: int) -> None:
        self.print_names(found, verbosity)
        if verbosity and not any(found):
            self.stdout.write("No differences.")
        if any(found):
            raise CommandError(
                "The database knows other tasks than the code declares: run "
                "'manage.py synctasks'."
            )

    def report(self, found: Synced, number: int, verbosity: int) -> None:
        self.print_names(found, verbosity)
        if verbosity:
            self.stdout.write(
                f"{number} tasks: {len(found.new)} new, {len(found.changed)} changed, "
                f"{len(found.gone)} gone."
            )

    def print_names(self, found: Synced, verbosity: int) -> None:
        for kind, names in found._asdict().items() if verbosity else ():
            for name in names:
                self.stdout.write(f"{WORDS[kind]} {name}")
