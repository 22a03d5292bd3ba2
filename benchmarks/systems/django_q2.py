"""django-q2 with its ORM broker: ten worker processes, or as many as asked for."""

from django.core.management import call_command

from benchmarks import tasks
from benchmarks.adapter import OPTIONS
from benchmarks.systems import django_rival

django_rival.set_up_django(
    "django_q",
    Q_CLUSTER={
        "orm": "default",
        "workers": OPTIONS.get("slots", 10),
        "bulk": 10,
        "queue_limit": 100,
        "save_limit": 0,  # keep all results, as the others do, and count none
        "timeout": 60,
        "retry": 600,
        "log_level": "WARNING",
        "scheduler": False,
    },
)

from django.db import transaction
from django_q.tasks import async_task

TASKS = {"noop": tasks.noop, "stamp": tasks.stamp}
UNFINISHED = "SELECT count(*) FROM django_q_ormq"
setup = django_rival.migrate


def enqueue(task, number):
    async_task(TASKS[task], number)


def hold(path):
    async_task(tasks.hold, path, timeout=OPTIONS["limit"])


def enqueue_many(task, numbers):
    with transaction.atomic():
        for number in numbers:
            async_task(TASKS[task], number)


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("qcluster", verbosity=0)
