from types import ModuleType

from django.core.management.base import BaseCommand, CommandError
from django.db import connections, transaction

from ..importing import django_celery_beat, django_q2, procrastinate
from ..parameters import add_database, ready_database

SOURCES = {
    "django-celery-beat": django_celery_beat,
    "django-q2": django_q2,
    "procrastinate": procrastinate,
}


class Command(BaseCommand):
    help = (
        "Make jobs and schedules of those that another queue has in the same database. "
        "What it runs or has run stays there. Can be repeated."
    )

    def add_arguments(self, parser):
        parser.add_argument(
            "source",
            choices=["django-tasks-db", *SOURCES],
            help="the queue to take over from",
        )
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be done"
        )
        add_database(parser)

    def handle(self, **options):
        source, is_rehearsal = options["source"], options["dry_run"]
        module = module_of(source)
        with ready_database(options["database"]) as alias:
            check_tables(alias, source, module.TABLES)
            with transaction.atomic(using=alias):
                taken = module.take(alias)
                transaction.set_rollback(is_rehearsal, using=alias)
        would = "Would import" if is_rehearsal else "Imported"
        what = "task" if source == "django-tasks-db" else "job or schedule"
        many = "tasks" if source == "django-tasks-db" else "jobs and schedules"
        noun = what if taken.number == 1 else many
        self.stdout.write(f"{would} {taken.number} {noun}.")
        for reason, number in taken.reasons.most_common():
            self.stderr.write(f"Left {number} where they are: {reason}.")


def module_of(source: str) -> ModuleType:
    """Return the module that takes over from a source."""
    if source in SOURCES:
        return SOURCES[source]
    try:
        from ..importing import django_tasks_db
    except ImportError as error:
        raise CommandError(
            f"There is no django.tasks here ({error}). On Django 5.2: "
            "pip install 'pgjobs[tasks]'."
        ) from error
    return django_tasks_db


def check_tables(alias: str, source: str, tables: tuple[str, ...]) -> None:
    """Raise CommandError if the other queue's tables are not in this database."""
    there = connections[alias].introspection.table_names()
    for table in tables:
        if table not in there:
            raise CommandError(
                f"The database {alias!r} has no table {table}, where {source} keeps "
                "its tasks. Both must share a database."
            )
