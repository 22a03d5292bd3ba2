"""The tasks of all adapters whose system is a backend of django.tasks.

Django has to be set up before this is imported.
"""

import django
from django.db import transaction

from benchmarks import tasks

if django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def noop(number):
    tasks.noop(number)


@task
def stamp(number):
    tasks.stamp(number)


TASKS = {"noop": noop, "stamp": stamp}


def enqueue(task, number):
    TASKS[task].enqueue(number)


def enqueue_in_transaction(task, numbers):
    """Enqueue many one by one, for a backend that knows no better."""
    with transaction.atomic():
        for number in numbers:
            enqueue(task, number)
