"""django-tasks-db: the reference backend of django.tasks; one task at a time."""

from django.core.management import call_command

from benchmarks.systems import django_rival

BACKEND = "django_tasks_db.DatabaseBackend"
django_rival.set_up_django("django_tasks_db", TASKS={"default": {"BACKEND": BACKEND}})

from benchmarks.systems import django_core_tasks

UNFINISHED = """
SELECT count(*) FROM django_tasks_database_dbtaskresult
WHERE status IN ('READY', 'RUNNING')
"""
setup = django_rival.migrate
enqueue = django_core_tasks.enqueue
enqueue_many = django_core_tasks.enqueue_in_transaction


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("db_worker", startup_delay=False, verbosity=0)
