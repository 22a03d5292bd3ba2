"""django-ox: a backend of django.tasks with leases and retries; polls."""

from django.core.management import call_command

from benchmarks.systems import django_rival

BACKEND = "django_ox.backend.OxBackend"
django_rival.set_up_django("django_ox", TASKS={"default": {"BACKEND": BACKEND}})

from django_ox.bulk import enqueue_many as enqueue_all

from benchmarks.systems import django_core_tasks

UNFINISHED = """
SELECT count(*) FROM django_ox_oxtask WHERE status IN ('READY', 'RUNNING')
"""
setup = django_rival.migrate
enqueue = django_core_tasks.enqueue


def enqueue_many(task, numbers):
    enqueue_all(django_core_tasks.TASKS[task], [((number,), {}) for number in numbers])


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("ox_worker", concurrency=10, verbosity=0)
