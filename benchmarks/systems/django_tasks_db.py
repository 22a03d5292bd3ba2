"""django-tasks-db: the reference backend of django.tasks; one task at a time."""

from django.core.management import call_command

from benchmarks import tasks
from benchmarks.systems import django_rival

BACKEND = "django_tasks_db.DatabaseBackend"
django_rival.set_up_django("django_tasks_db", TASKS={"default": {"BACKEND": BACKEND}})

from django.db import transaction
from django.tasks import task


@task
def noop(number):
    tasks.noop(number)


@task
def stamp(number):
    tasks.stamp(number)


TASKS = {"noop": noop, "stamp": stamp}
UNFINISHED = """
SELECT count(*) FROM django_tasks_database_dbtaskresult
WHERE status IN ('READY', 'RUNNING')
"""
setup = django_rival.migrate


def enqueue(task, number):
    TASKS[task].enqueue(number)


def enqueue_many(task, numbers):
    with transaction.atomic():
        for number in numbers:
            TASKS[task].enqueue(number)


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("db_worker", startup_delay=False, verbosity=0)
