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


@task
def noop(number):
    tasks.noop(number)


@task
def stamp(number):
    tasks.stamp(number)


TASKS = {"noop": noop, "stamp": stamp}
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
