from collections.abc import Callable
from functools import partial
from types import ModuleType

from django.core.management.base import CommandError
from django.db import connections, transaction

from ...management.auditing import audited
from ...management.parameters import add_database, ready_database
from ...management.speaking import QuietCommand
from . import django_celery_beat, django_q2, procrastinate
from .taking import Taken

SOURCES = {
    "django-celery-beat": django_celery_beat,
    "django-q2": django_q2,
    "procrastinate": procrastinate,
}


class Command(QuietCommand):
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
        parser.add_argument(
            "--cluster",
            metavar="NAME",
            help="of django-q2: take what is of this cluster (default: the name in "
            "Q_CLUSTER)",
        )
        add_database(parser)

    def handle(self, **options):
        source, is_rehearsal = options["source"], options["dry_run"]
        module = module_of(source)
        take = module.take
        if options["cluster"] is not None:
            if module is not django_q2:
                raise CommandError("--cluster is for django-q2 only.", returncode=2)
            take = partial(take, cluster=options["cluster"])
        with ready_database(options["database"]) as alias:
            check_tables(alias, source, module.TABLES)
            if is_rehearsal:
                taken = rehearsed(take, alias)
            else:
                with audited(alias, "import", "job", chosen=source) as entry:
                    with transaction.atomic(using=alias):
                        taken = take(alias)
                    entry.number = taken.number
        would = "Would import" if is_rehearsal else "Imported"
        what = "task" if source == "django-tasks-db" else "job or schedule"
        many = "tasks" if source == "django-tasks-db" else "jobs and schedules"
        noun = what if taken.number == 1 else many
        self.stdout.write(f"{would} {taken.number} {noun}.")
        for reason, number in taken.reasons.most_common():
            self.stderr.write(f"Left {number} where they are: {reason}.")
        for loss, number in taken.losses.most_common():
            self.stderr.write(f"Took {number} without what has no place here: {loss}.")


def rehearsed(take: Callable[[str], Taken], alias: str) -> Taken:
    """Return what would be taken over."""
    with transaction.atomic(using=alias):
        taken = take(alias)
        transaction.set_rollback(True, using=alias)
    return taken


def module_of(source: str) -> ModuleType:
    """Return the module that takes over from a source."""
    if source in SOURCES:
        return SOURCES[source]
    try:
        from . import django_tasks_db
    except ImportError as error:
        raise CommandError(
            f"There is no django.tasks here ({error}). On Django 5.2: "
            "pip install 'django-pgjobs[tasks]'."
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
