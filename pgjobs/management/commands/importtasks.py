from django.core.management.base import BaseCommand, CommandError
from django.db import connections, transaction

from ..parameters import add_database, ready_database

TABLE = "django_tasks_database_dbtaskresult"


class Command(BaseCommand):
    help = (
        "Make jobs of the tasks that another backend of django.tasks has queued. What "
        "it runs or has run stays there. Can be repeated."
    )

    def add_arguments(self, parser):
        parser.add_argument("source", choices=["django-tasks-db"])
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be done"
        )
        add_database(parser)

    def handle(self, **options):
        with ready_database(options["database"]) as alias:
            if TABLE not in connections[alias].introspection.table_names():
                raise CommandError(
                    f"The database {alias!r} has no table {TABLE}, where "
                    "django-tasks-db keeps its tasks. Both must share a database."
                )
            taken = self.take(alias, options["dry_run"])
        would = "Would import" if options["dry_run"] else "Imported"
        tasks = "task" if taken.number == 1 else "tasks"
        self.stdout.write(f"{would} {taken.number} {tasks}.")
        for reason, number in taken.reasons.most_common():
            self.stderr.write(f"Left {number} where they are: {reason}.")

    def take(self, alias: str, is_rehearsal: bool):
        try:
            from ...backends.takeover import take_from_django_tasks_db
        except ImportError as error:
            raise CommandError(
                f"There is no django.tasks here ({error}). On Django 5.2: "
                "pip install 'pgjobs[tasks]'."
            ) from error
        if not is_rehearsal:
            return take_from_django_tasks_db(alias)
        with transaction.atomic(using=alias):
            taken = take_from_django_tasks_db(alias)
            transaction.set_rollback(True, using=alias)
        return taken
