"""dj-queue: Solid Queue's design as a backend of django.tasks; LISTENs and polls."""

from django.core.management import call_command

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

from benchmarks.systems import django_core_tasks

UNFINISHED = "SELECT count(*) FROM dj_queue_jobs WHERE finished_at IS NULL"
setup = django_rival.migrate
enqueue = django_core_tasks.enqueue


def enqueue_many(task, numbers):
    own_task = django_core_tasks.TASKS[task]
    jobs = [(own_task, [number], {}) for number in numbers]
    own_task.get_backend().enqueue_all(jobs)


def unfinished():
    return django_rival.count(UNFINISHED)


def work():
    call_command("dj_queue", verbosity=0)
