"""What encryption costs: `python -m benchmarks.encryption`.

The same jobs with three plain arguments, and with two of them encrypted: enqueued one
by one, and run with one slot. Prints the processor time of this process for a job, on a
PostgreSQL started for it or on that of DATABASE_URL. Exits with 1 if the encrypted job
takes more than 1.25 times as long.
"""

import os
import random
import statistics
import time
from base64 import urlsafe_b64encode
from decimal import Decimal

import dj_database_url
import django
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from benchmarks import encryption_tasks
from benchmarks.server import running_server
from pgjobs import enqueue

JOBS = 200
ROUNDS = 9
GOAL = 1.25
ARGUMENTS = ("DE89370400440532013000", "Ada Lovelace", Decimal("9.50"))
TASKS = {"plain": encryption_tasks.plain, "encrypted": encryption_tasks.encrypted}


def main() -> None:
    with running_server(os.environ.get("DATABASE_URL")) as server:
        set_up(server.create_database("encryption"))
        try:
            times = seconds()
        finally:
            connections.close_all()
            server.drop_database("encryption")
    ratio = statistics.median(
        more / less for less, more in zip(*times.values(), strict=True)
    )
    for name, each in times.items():
        best, median = min(each) * 1e3, statistics.median(each) * 1e3
        print(f"{name:10} {best:.3f} ms/job at best, {median:.3f} median")  # noqa: T201
    print(f"encrypted / plain: {ratio:.3f} (median of {ROUNDS} rounds)")  # noqa: T201
    if ratio > GOAL:
        raise SystemExit(1)


def set_up(url: str) -> None:
    settings.configure(
        DATABASES={"default": dj_database_url.parse(url, conn_max_age=None)},
        INSTALLED_APPS=["pgjobs"],
        USE_TZ=True,
        LOGGING={"version": 1, "loggers": {"pgjobs": {"level": "ERROR"}}},
        PGJOBS={"ENCRYPTION_KEYS": [urlsafe_b64encode(os.urandom(32)).decode()]},
    )
    django.setup()
    call_command("migrate", verbosity=0)


def seconds() -> dict[str, list[float]]:
    """Return the processor time of a job, by task and round."""
    times: dict[str, list[float]] = {name: [] for name in TASKS}
    for _ in range(ROUNDS):
        # In any order: what else the machine does hits both.
        for name in random.sample(list(TASKS), len(TASKS)):
            times[name].append(enqueued_and_run(TASKS[name]) / JOBS)
    return times


def enqueued_and_run(job_task) -> float:
    from pgjobs.models import Job
    from pgjobs.worker import Loop, WorkerOptions

    begun = time.process_time()
    for _ in range(JOBS):
        enqueue(job_task, *ARGUMENTS)
    Loop(WorkerOptions(slots=1, drain=True)).run()
    taken = time.process_time() - begun
    succeeded = Job.objects.filter(status="SUCCESSFUL").count()
    if succeeded != JOBS:
        raise SystemExit(f"Only {succeeded} of {JOBS} jobs succeeded.")
    Job.objects.all().delete()
    return taken


if __name__ == "__main__":
    main()
