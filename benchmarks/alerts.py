"""Measure the list of problems: `python -m benchmarks.alerts [--jobs 1000000]`.

Fills a database with ten thousand queues, schedules and tasks, lines that wait, and
jobs, and looks for each kind of remark a few times. The table shows the median of how
much of a processor PostgreSQL needs. Exits with 1 if all kinds together need more than
50 ms.
"""

import argparse
import os
import statistics
import sys
from pathlib import Path

from benchmarks.desk import SPEED, insert_jobs, nanoseconds, say
from benchmarks.processes import ROOT
from benchmarks.server import privileged, running_server

GOAL = 50.0  # ms
ROUNDS = 5
MANY = """
INSERT INTO pgjobs_queue (name) SELECT 'many_' || i FROM generate_series(1, 10000) AS i;
INSERT INTO pgjobs_worker (
    name, host, pid, queues, excluded, slots, started_at, heartbeat_at, beating_since,
    lease_until, heartbeat_interval, holds_session_lock
)
SELECT 'worker-' || i, 'host', i, '', '', 8, now() - interval '1 h', now(), now(),
    now() + interval '1 day', 5, false
FROM generate_series(1, 10) AS i;
INSERT INTO pgjobs_job (id, turn, task, queue_name, status, enqueued_at)
SELECT 10000000000 + i, i, 'many.task_' || i, 'many_' || i, 'READY',
    now() - interval '5 min'
FROM generate_series(1, 10000) AS i;
INSERT INTO pgjobs_job (
    id, turn, task, queue_name, status, enqueued_at, waiting_for, line, keys
)
SELECT 10000100000 + i, i, 'many.task', 'many_' || i, 'WAITING',
    now() - interval '5 min', 'lock', 'lock many_' || i,
    jsonb_build_object('lock', 'many_' || i)
FROM generate_series(1, 10000) AS i;
INSERT INTO pgjobs_job (
    id, turn, task, queue_name, status, enqueued_at, attempts, started_at,
    last_attempted_at, finished_at
)
SELECT 10001000000 + i, i, 'many.task', 'default',
    CASE WHEN i % 100 < 5 THEN 'FAILED' ELSE 'SUCCESSFUL' END, now(), 1, now(), now(),
    now() - i * interval '1 ms'
FROM generate_series(1, 40000) AS i;
INSERT INTO pgjobs_schedule (name, task, every, next_run_at, last_job_id)
SELECT 'many-' || i, 'many.task_' || i, interval '10 min', now() + interval '5 min',
    10001000000 + i
FROM generate_series(1, 10000) AS i;
INSERT INTO pgjobs_tick (schedule_id, time, job_id)
SELECT schedule.id, now() - run * interval '10 min', last_job_id + run * 10000
FROM pgjobs_schedule AS schedule CROSS JOIN generate_series(0, 3) AS run;
INSERT INTO pgjobs_figure (
    span, start, queue_name, task, successful, failed, seconds, run_times, wait_times
)
SELECT each.span, each.start, 'many_' || task, 'many.task_' || task, 100, task % 5,
    9, array_fill(3, ARRAY[28]), array_fill(5, ARRAY[28])
FROM generate_series(1, 10000) AS task
CROSS JOIN (
    SELECT 1, date_trunc('minute', now()) - i * interval '1 min'
    FROM generate_series(0, 61) AS i
    UNION ALL
    SELECT 60, date_trunc('hour', now()) - i * interval '1 h'
    FROM generate_series(0, 4) AS i
) AS each (span, start);
INSERT INTO pgjobs_endedworker (
    worker_id, name, host, pid, queues, excluded, version, started_at, ended_at, how
)
SELECT 100000 + i, 'ended-' || i, 'host', i, '', '', '', now(),
    now() - i * interval '1 min', 'asked'
FROM generate_series(1, 1000) AS i;
SELECT setval(pg_get_serial_sequence('pgjobs_job', 'id'), max(id)) FROM pgjobs_job
"""


def fill(execute, jobs: int) -> None:
    execute(SPEED)
    insert_jobs(execute, jobs)
    for text in MANY.split(";\n"):
        execute(text)
    execute("RESET session_replication_role")
    execute("VACUUM ANALYZE")


def measure() -> float:
    """Print a line for each kind; return what all of them need together."""
    from django.db import connection

    from pgjobs.base.queue_database import database_time
    from pgjobs.features.desk.limits import alerts, chosen
    from pgjobs.features.desk.remarks import found
    from pgjobs.models import Worker
    from pgjobs.reports.remarks import Seen

    workers = list(Worker.objects.all())
    seen = Seen("default", database_time("default"), workers, workers)
    backend = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")

    def cost(look) -> float:
        took = []
        for _ in range(ROUNDS):
            before = nanoseconds(backend)
            list(look())
            took.append((nanoseconds(backend) - before) / 1_000_000)
        return statistics.median(took)

    for alert in alerts().values():
        value = chosen(alert).value
        spent = cost(lambda alert=alert, value=value: alert.look(seen, value))
        say(f"{alert.kind:24}{spent:8.1f} ms")
    whole = cost(lambda: found(seen))
    say(f"{'all':24}{whole:8.1f} ms")
    for remark in found(seen):
        say(f"{remark.kind:24}{remark.level:10}{remark.text[:90]}")
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument(
        "--database", metavar="URL", help="filled already: only measure"
    )
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "example_project"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.running_settings"
    os.environ["BENCHMARK_TASKS"] = "benchmarks.running_tasks"
    if options.database:
        os.environ["DATABASE_URL"] = options.database
        return report()
    with running_server(os.environ.get("DATABASE_URL")) as server:
        os.environ["DATABASE_URL"] = server.create_database("alerts")
        prepare(options.jobs)
        return report()


def prepare(jobs: int) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    with privileged() as server:
        fill(server.execute, jobs)


def report() -> int:
    import django

    django.setup()
    whole = measure()
    django.db.connections.close_all()
    return 0 if whole <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
