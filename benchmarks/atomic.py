"""What `atomic=True` costs: `python -m benchmarks.atomic`.

The same body, which writes one row, as a plain task, as a plain task with a transaction
around it, and as an atomic task. Prints the round trips of the slot, and the time of a
job with one slot, on a PostgreSQL started for it or on that of DATABASE_URL. Exits with
1 if being atomic costs a round trip more than the same transaction by hand.
"""

import os
import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

import dj_database_url
import django
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.db.backends.signals import connection_created

from benchmarks import atomic_tasks
from benchmarks.server import Server, running_server
from pgjobs import enqueue_many

JOBS = 500
ROUNDS = 11
TRACED_JOBS = 21
GOAL = 1  # round trip; being atomic must cost less

TASKS = {
    "plain task": atomic_tasks.plain,
    "with transaction.atomic()": atomic_tasks.block,
    "@task(atomic=True)": atomic_tasks.atomic,
}


def main() -> None:
    with running_server(os.environ.get("DATABASE_URL")) as server:
        url = server.create_database("atomic")
        set_up(url)
        try:
            trips = {name: round_trips(each) for name, each in TASKS.items()}
            print(report(server, trips, milliseconds()))  # noqa: T201
        finally:
            connections.close_all()
            server.drop_database("atomic")
    _, by_hand, atomic = trips.values()
    if atomic - by_hand >= GOAL:
        raise SystemExit(1)


def set_up(url: str) -> None:
    settings.configure(
        DATABASES={"default": dj_database_url.parse(url, conn_max_age=None)},
        INSTALLED_APPS=["pgjobs"],
        USE_TZ=True,
        LOGGING={"version": 1, "loggers": {"pgjobs": {"level": "ERROR"}}},
    )
    django.setup()
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE effect (id bigserial PRIMARY KEY)")


def report(
    server: Server, trips: dict[str, float], times: dict[str, list[float]]
) -> str:
    lines = [
        f"PostgreSQL {server.version}, one slot, {ROUNDS} rounds of {JOBS} jobs",
        f"One round trip (SELECT 1): {ms_of_a_round_trip():.3f} ms",
        f"{'':26}{'round trips':>12}{'ms/job, best':>14}{'median':>8}",
    ]
    for name in TASKS:
        best, median = min(times[name]), statistics.median(times[name])
        lines.append(f"{name:26}{trips[name]:12.2f}{best:14.3f}{median:8.3f}")
    by_hand, atomic = list(TASKS)[1:]
    pairs = zip(times[by_hand], times[atomic], strict=True)
    more = statistics.median(second - first for first, second in pairs)
    lines.append(
        "atomic=True instead of a transaction by hand: "
        f"{trips[atomic] - trips[by_hand]:+.2f} round trips, {more:+.3f} ms (median)"
    )
    return "\n".join(lines)


def milliseconds() -> dict[str, list[float]]:
    """Return how long a job took, by task and round."""
    times: dict[str, list[float]] = {name: [] for name in TASKS}
    for _ in range(ROUNDS):
        # In any order: what else the machine does hits all of them.
        for name in random.sample(list(TASKS), len(TASKS)):
            times[name].append(drain(TASKS[name], JOBS) / JOBS * 1e3)
    return times


def drain(job_task, number: int) -> float:
    """Run so many jobs; return the seconds that it took."""
    from pgjobs.models import Job
    from pgjobs.worker import Loop, WorkerOptions

    enqueue_many([job_task.bind() for _ in range(number)])
    loop = Loop(WorkerOptions(slots=1, drain=True))
    begun = time.perf_counter()
    loop.run()
    seconds = time.perf_counter() - begun
    succeeded = Job.objects.filter(status="SUCCESSFUL").count()
    if succeeded != number:
        raise SystemExit(f"Only {succeeded} of {number} jobs succeeded.")
    Job.objects.all().delete()
    return seconds


def round_trips(job_task) -> float:
    """Return how often a slot waits for the server, for one job more."""
    return (traced(job_task, TRACED_JOBS) - traced(job_task, 1)) / (TRACED_JOBS - 1)


def traced(job_task, number: int) -> int:
    with tempfile.NamedTemporaryFile() as file:

        def trace(connection, **named):
            if threading.current_thread() is not threading.main_thread():
                connection.connection.pgconn.trace(file.fileno())

        connection_created.connect(trace)
        try:
            drain(job_task, number)
        finally:
            connection_created.disconnect(trace)
        return Path(file.name).read_text().count("ReadyForQuery")


def ms_of_a_round_trip() -> float:
    with connection.cursor() as cursor:
        times = []
        for _ in range(1_000):
            begun = time.perf_counter()
            cursor.execute("SELECT 1")
            times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


if __name__ == "__main__":
    main()
