"""Measure claims over many queues: `python -m benchmarks.queues [case ...]`.

In each case a worker process drains the same number of jobs that do nothing. What it
reaches is given as its ratio to the drain of one queue in the same round: by the clock,
and by the processor time of worker and server together, which is steadier on a machine
that has other things to do. Starts a PostgreSQL of its own, or takes that of
DATABASE_URL. Exits with 1 if a ratio misses its goal.
"""

import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.processes import ROOT, cpu_seconds_of_tree
from benchmarks.server import Server, privileged, running_server

JOBS = 20_000
ROUNDS = 3
LONGEST_DRAIN = 600  # seconds
WORKER = ("-m", "django", "runjobs", "--drain", "--verbosity", "0")
INSERT = """
INSERT INTO pgjobs_job (task, kwargs, queue_name)
SELECT %s, '{"number": 1}', %s || number %% %s FROM generate_series(1, %s) AS number
"""
PAUSE = "INSERT INTO pgjobs_queue (name, paused_at) VALUES (%s, now())"
TAKEN = """
SELECT count(*), extract(epoch FROM max(finished_at) - min(started_at))::float8
FROM pgjobs_job WHERE status = 'SUCCESSFUL'
"""


class Case(NamedTuple):
    queues: int
    goal: float | None = None  # ratio to the rate of the first case
    unserved: int = 0  # READY jobs ahead, in a queue that the worker does not serve
    in_line: int = 0  # jobs that wait for one lock
    arguments: Sequence[str] = ()
    pauses: bool = False  # the queue that is not served


CASES = {
    "1": Case(1),
    "100": Case(100, 0.85),
    "1,000": Case(1_000, 0.5),
    "10,000": Case(10_000, 0.3),
    "1,000, another paused": Case(1_000, 0.3, unserved=100_000, pauses=True),
    "1,000 beside a line": Case(
        1_000, 0.3, in_line=100_000, arguments=["--exclude", "line"]
    ),
    # Fetches by queue cost the worker more than fetches in claim order, at any length.
    "1, another excluded": Case(
        1, unserved=300_000, arguments=["--exclude", "unserved0"]
    ),
    "1, that was named": Case(1, unserved=300_000, arguments=["--queues", "queue0"]),
}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fill(case: Case) -> None:
    from django.db import connection

    from benchmarks.project.tasks import TASKS
    from pgjobs import enqueue_many

    noop = TASKS["noop"]
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE pgjobs_job, pgjobs_queue CASCADE")
        if case.unserved:
            cursor.execute(INSERT, [noop.name, "unserved", 1, case.unserved])
        if case.pauses:
            cursor.execute(PAUSE, ["unserved0"])
        waiting = noop.using(queue_name="line", lock="one")
        for _ in range(case.in_line // 10_000):
            enqueue_many([waiting.bind(1) for _ in range(10_000)])
        cursor.execute(INSERT, [noop.name, "queue", case.queues, JOBS])
    with privileged() as server:
        for statement in ("VACUUM ANALYZE", "CHECKPOINT"):
            server.execute(statement)


class Drained(NamedTuple):
    rate: float  # jobs a second
    processor: float  # jobs a second of processor time


def processor_seconds(server: Server) -> float:
    """Return what the server and all workers that have ended have used."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = cpu_seconds_of_tree(server.pid) if server.pid else 0.0
    return ended.ru_utime + ended.ru_stime + used


def run_worker(server: Server, arguments: Sequence[str]) -> float:
    """Let a worker drain the queue; return the processor time that it took."""
    command = [sys.executable, *WORKER, "--concurrency", "10", *arguments]
    begun = processor_seconds(server)
    subprocess.run(command, cwd=ROOT, check=True, timeout=LONGEST_DRAIN)
    return processor_seconds(server) - begun


def drain(server: Server, case: Case, start: float) -> Drained:
    """Drain the jobs of a case; `start`: processor time of a worker without jobs."""
    from django.db import connection

    fill(case)
    used = run_worker(server, case.arguments) - start
    with connection.cursor() as cursor:
        cursor.execute(TAKEN)
        number, seconds = cursor.fetchone()
    if number != JOBS:
        raise SystemExit(f"Only {number:,} of {JOBS:,} jobs were drained.")
    return Drained(number / seconds, number / used)


def measure(server: Server, names: Sequence[str]) -> bool:
    """Print each case's rate and ratios; return whether all goals are reached."""
    names = ["1", *names]
    start = run_worker(server, ())
    rounds = []
    for number in range(1, ROUNDS + 1):
        rounds.append({name: drain(server, CASES[name], start) for name in names})
        say(f"Round {number} of {ROUNDS} is done.")
    verdicts = [report(name, rounds) for name in names]
    return all(verdicts)


def report(name: str, rounds: Sequence[dict[str, Drained]]) -> bool:
    """Print the medians of a case; return whether it reaches its goal."""
    rate = statistics.median(each[name].rate for each in rounds)
    ratio = statistics.median(each[name].rate / each["1"].rate for each in rounds)
    by_processor = statistics.median(
        each[name].processor / each["1"].processor for each in rounds
    )
    goal = CASES[name].goal
    is_reached = goal is None or ratio >= goal
    verdict = f"goal {goal}{'' if is_reached else '  MISSED'}" if goal else ""
    say(
        f"{name:22}{rate:7,.0f} jobs/s{ratio:6.2f} of one queue"
        f"{by_processor:6.2f} by processor time  {verdict}"
    )
    return is_reached


def main(names: Sequence[str]) -> int:
    unknown = set(names) - CASES.keys()
    if unknown:
        sys.exit(f"No case {', '.join(unknown)}; there are: {'; '.join(CASES)}.")
    with running_server(os.environ.get("DATABASE_URL")) as server:
        os.environ["DATABASE_URL"] = server.create_database("queues")
        os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.project.settings"
        os.environ["PYTHONPATH"] = str(ROOT)
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        is_reached = measure(server, [each for each in names or CASES if each != "1"])
        django.db.connections.close_all()
        server.drop_database("queues")
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
