"""dj-queue: Solid Queue's design as a backend of django.tasks; LISTENs and polls."""

from django.core.management import call_command

from benchmarks import tasks
from benchmarks.systems import django_rival

django_rival.set_up_django(
    "dj_queue",
    TASKS={
        "default": {
            "BACKEND": "dj_queue.backend.DjQueueBackend",
            "QUEUES": [],
            "OPTIONS": {"workers": [{"queues": ["*"], "threads": 10}]},
        }
    },
)

from django.tasks import task

TASKS = {"noop": task(tasks.noop), "stamp": task(tasks.stamp)}
noop, stamp = TASKS.values()  # looked up by these names
UNFINISHED = "SELECT count(*) FROM dj_queue_jobs WHERE finished_at IS NULL"
setup = django_rival.migrate


def enqueue(task, number):
    TASKS[task].enqueue(number)


def enqueue_many(task, numbers):
    backend = TASKS[task].get_backend()
    backend.enqueue_all([(TASKS[task], [number], {}) for number in numbers])


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("dj_queue", verbosity=0)
