"""Measure the admin's pages: `python -m benchmarks.desk [--jobs 5000000]`.

Fills a database with jobs of 50 tasks in 20 queues, nearly all of them finished, and
opens each page a few times. The table shows medians: the time that a page takes, how
much of a processor Python and PostgreSQL need for it, and how many statements run.
Starts a PostgreSQL of its own, or takes that of DATABASE_URL. Exits with 1 if a page
needs more than 300 ms of the processor, which other work on the machine does not change
as it changes the time.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.processes import ROOT
from benchmarks.server import privileged, running_server

GOAL = 300.0  # ms
ROUNDS = 3
# Without the triggers, which look at each job by itself. What they would refuse is not
# inserted here.
SPEED = "SET session_replication_role = replica; SET synchronous_commit = off"
JOBS = """
INSERT INTO pgjobs_job (
    id, turn, task, queue_name, status, kwargs, reason, enqueued_at, started_at,
    last_attempted_at, finished_at, run_after, attempts, failures, waiting_for, line,
    keys, error_group
)
SELECT i, i, 'shop.task_' || i %% 50, 'queue_' || i %% 20, each.status,
    jsonb_build_object('order_id', i, 'note', 'about ' || i %% 1000),
    CASE WHEN each.status = 'FAILED' THEN 'OSError: declined: ' || i %% 100 ELSE '' END,
    each.at, each.at, CASE WHEN i <= %(ended)s THEN each.at END,
    CASE WHEN i <= %(ended)s THEN each.at + interval '3 s' END,
    CASE each.status WHEN 'SCHEDULED' THEN now() + i %% 9999 * interval '1 s' END,
    (i <= %(ended)s)::int, (each.status = 'FAILED')::int,
    CASE each.status WHEN 'WAITING' THEN 'lock' END,
    CASE each.status WHEN 'WAITING' THEN 'lock default lock_' || i %% 100 END,
    CASE each.status
        WHEN 'WAITING' THEN jsonb_build_object('lock', 'lock_' || i %% 100)
    END,
    CASE each.status WHEN 'FAILED' THEN i %% 7 * 50 + i %% 50 END
FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i
CROSS JOIN LATERAL (
    SELECT
        CASE
            WHEN i > %(ended)s
                THEN (ARRAY['READY', 'SCHEDULED', 'WAITING'])[1 + i %% 3]
            WHEN i %% 40 = 0 THEN 'FAILED'
            WHEN i %% 100 = 1 THEN 'CANCELLED'
            ELSE 'SUCCESSFUL'
        END,
        now() - (%(total)s - i) * interval '7 days' / %(total)s
) AS each (status, at)
"""
ATTEMPTS = """
INSERT INTO pgjobs_attempt (
    job_id, life, number, worker_name, started_at, finished_at, outcome,
    exception_class, message, traceback
)
SELECT id, 1, 1, 'worker', started_at, finished_at, 'FAILED',
    'shop.Error' || id % 7, reason, repeat('  File "shop.py", line 1', 40)
FROM pgjobs_job WHERE status = 'FAILED' AND finished_at IS NOT NULL
"""
FIGURES = """
INSERT INTO pgjobs_figure (
    span, start, queue_name, task, successful, failed, seconds, run_times, wait_times
)
SELECT each.span, each.start, 'queue_' || task % 20, 'shop.task_' || task, 100,
    task % 3, 9, array_fill(3, ARRAY[28]), array_fill(5, ARRAY[28])
FROM generate_series(0, 49) AS task
CROSS JOIN (
    SELECT 1, date_trunc('minute', now()) - i * interval '1 min'
    FROM generate_series(0, 2879) AS i
    UNION ALL
    SELECT 60, date_trunc('hour', now()) - i * interval '1 h'
    FROM generate_series(0, 2159) AS i
) AS each (span, start)
"""
OTHERS = """
INSERT INTO pgjobs_queue (name) SELECT 'queue_' || i FROM generate_series(0, 19) AS i;
INSERT INTO pgjobs_worker (
    name, host, pid, queues, excluded, slots, started_at, heartbeat_at, beating_since,
    lease_until, heartbeat_interval, holds_session_lock
)
SELECT 'worker-' || i, 'host', i, '', '', 8, now(), now(), now(),
    now() + interval '1 day', 5, false
FROM generate_series(1, 10) AS i;
UPDATE pgjobs_job SET status = 'RUNNING', attempts = 1, last_attempted_at = now(),
    run_after = NULL,
    worker_id = (SELECT min(id) FROM pgjobs_worker) + id % 10
WHERE id IN (SELECT id FROM pgjobs_job WHERE status = 'READY' ORDER BY id LIMIT 80);
INSERT INTO pgjobs_schedule (name, task, cron)
SELECT 'schedule-' || i, 'shop.task_' || i, '0 3 * * *' FROM generate_series(1, 40) i;
INSERT INTO pgjobs_errorgroup (id, task, exception_class, place, message)
SELECT i, 'shop.task_' || i % 50, 'shop.Error' || i / 50, 'shop.pay', 'declined: #'
FROM generate_series(0, 349) AS i;
INSERT INTO pgjobs_batch (description)
SELECT 'batch ' || i FROM generate_series(1, 100) AS i;
INSERT INTO pgjobs_event (name, aggregate_id, handlers)
SELECT 'paid', 'order-' || i, i % 2 FROM generate_series(1, 1000) AS i;
SELECT setval(pg_get_serial_sequence('pgjobs_job', 'id'), max(id)) FROM pgjobs_job
"""
FIRST = "SELECT min(id) FROM pgjobs_{}"
APP = "/admin/pgjobs/"
LIST = f"{APP}job/"
AT_ONCE = 250_000


class Visit(NamedTuple):
    """One look at a page."""

    milliseconds: float
    python: float  # milliseconds of the processor
    postgres: float
    statements: int
    slowest: str


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def fill(execute, total: int) -> None:
    """Fill an empty database; one job in thirty has not ended."""
    execute(SPEED)
    insert_jobs(execute, total)
    for text in (ATTEMPTS, FIGURES, OTHERS):
        execute(text)
    execute("RESET session_replication_role")
    execute("VACUUM ANALYZE")


def insert_jobs(execute, total: int) -> None:
    ended = total - total // 30
    for first in range(1, total + 1, AT_ONCE):
        last = min(first + AT_ONCE - 1, total)
        bounds = {"first": first, "last": last, "ended": ended, "total": total}
        execute(JOBS, bounds)


def pages(execute) -> Iterator[tuple[str, str]]:
    """Yield the name and the address of each page."""
    yield "index of the app", APP
    for period in ("hour", "day", "week"):
        yield f"overview, {period}", f"{LIST}overview/?period={period}"
    yield "list", LIST
    for status in ("READY", "SCHEDULED", "WAITING", "RUNNING", "SUCCESSFUL", "FAILED"):
        yield f"list, {status}", f"{LIST}?status={status}"
    filters = {
        "task": "task=shop.task_7",
        "rare task": "task=shop.never",
        "queue": "queue_name=queue_7",
        "rare queue": "queue_name=nothing",
        "task and status": "task=shop.task_7&status=FAILED",
        "error": "status=FAILED&error=shop.Error3",
        "no exception": "status=FAILED&error=-",
        "error and task": "status=FAILED&error=shop.Error3&task=shop.task_0",
        "enqueued": "enqueued=hour",
        "ended": "ended=day",
        "ended and task": "ended=week&task=shop.task_7",
        "page 200": "p=200",
        "search id": "q=4711",
        "search task": "q=task_7",
        "search argument": "q=order_id:4999000",
        "search reason": "q=reason:declined",
        "search reason, failed": "q=reason:declined&status=FAILED",
        "search lock": "q=lock:lock_7",
        "search unique": "q=unique:none",
        "search meta": "q=meta.tenant:none",
        "worker": f"worker={execute(FIRST.format('worker'))[0][0]}",
        "schedule": f"schedule={execute(FIRST.format('schedule'))[0][0]}",
        "event": "event=1",
        "batch": "batch=1",
        "group": "group=57",
        "cancelled": "status=CANCELLED",
    }
    for name, query in filters.items():
        yield f"list, {name}", f"{LIST}?{query}"
    for status in ("SUCCESSFUL", "FAILED", "WAITING", "READY", "RUNNING"):
        row = execute(
            "SELECT id FROM pgjobs_job WHERE status = %(status)s ORDER BY id LIMIT 1",
            {"status": status},
        )
        yield f"job, {status}", f"{LIST}{row[0][0]}/change/"
        yield f"confirmation, {status}", f"{LIST}retry/{row[0][0]}/"
    for name in ("queue", "worker", "schedule", "batch", "event", "taskdefinition"):
        yield f"list of {name}", f"{APP}{name}/"
    for name in ("queue", "worker", "schedule", "event", "batch"):
        row = execute(FIRST.format(name))
        yield f"page of {name}", f"{APP}{name}/{row[0][0]}/change/"
    states = ("UNHANDLED", "DEAD", "PENDING", "CANCELLED", "PRUNED", "DELIVERED")
    for query in (*(f"state={each}" for each in states), "name=paid", "published=day"):
        yield f"list of event, {query}", f"{APP}event/?{query}"
    yield "list of event, search", f"{APP}event/?q=order-7"
    for state in ("on", "paused", "orphaned", "broken"):
        yield f"list of schedule, {state}", f"{APP}schedule/?state={state}"
    yield "list of subscription", f"{APP}subscription/"


def visit(client, connection, address: str) -> Visit:
    from django.test.utils import CaptureQueriesContext

    backend = Path(f"/proc/{connection.connection.info.backend_pid}/schedstat")
    with CaptureQueriesContext(connection) as captured:
        before = nanoseconds(backend), time.process_time(), time.perf_counter()
        response = client.get(address)
        after = nanoseconds(backend), time.process_time(), time.perf_counter()
    assert response.status_code in (200, 302), (address, response.status_code)
    slowest = max(captured.captured_queries, key=lambda each: float(each["time"]))
    return Visit(
        milliseconds=(after[2] - before[2]) * 1_000,
        python=(after[1] - before[1]) * 1_000,
        postgres=(after[0] - before[0]) / 1_000_000,
        statements=len(captured),
        slowest=f"{slowest['time']} s: {' '.join(slowest['sql'].split())}",
    )


def nanoseconds(backend: Path) -> int:
    """Return how long a process of this machine has run."""
    return int(backend.read_text().split()[0]) if backend.exists() else 0


def measure(names: list[str], is_verbose: bool) -> bool:
    """Print a line for each page; return whether all are fast enough."""
    from django.contrib.auth.models import User
    from django.db import connection
    from django.test import Client

    def execute(text, parameters=None):
        with connection.cursor() as cursor:
            cursor.execute(text, parameters)
            return cursor.fetchall()

    user = User.objects.filter(username="desk").first()
    user = user or User.objects.create_superuser("desk")
    client = Client()
    client.force_login(user)
    is_fast = True
    say(f"{'page':32}{'ms':>8}{'Python':>8}{'PostgreSQL':>12}{'statements':>12}")
    for name, address in pages(execute):
        if names and not any(each in name for each in names):
            continue
        visits = [visit(client, connection, address) for _ in range(ROUNDS)]
        took, python, postgres = (
            statistics.median(getattr(each, name) for each in visits)
            for name in ("milliseconds", "python", "postgres")
        )
        verdict = "  SLOW" if python + postgres > GOAL else ""
        is_fast = is_fast and not verdict
        numbers = f"{took:8,.0f}{python:8,.0f}{postgres:12,.0f}"
        say(f"{name:32}{numbers}{visits[-1].statements:12}{verdict}")
        if is_verbose:
            say(f"    {visits[-1].slowest[:2000]}")
    return is_fast


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5_000_000)
    parser.add_argument("--verbose", action="store_true", help="show slow statements")
    parser.add_argument(
        "--database", metavar="URL", help="filled already: only measure"
    )
    parser.add_argument("pages", nargs="*", help="parts of names of pages")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / "example_project"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "benchmarks.running_settings"
    os.environ["BENCHMARK_TASKS"] = "benchmarks.running_tasks"
    if options.database:
        os.environ["DATABASE_URL"] = options.database
        return report(options)
    with running_server(os.environ.get("DATABASE_URL")) as server:
        os.environ["DATABASE_URL"] = server.create_database("desk")
        prepare(options.jobs)
        return report(options)


def prepare(jobs: int) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    with privileged() as server:
        fill(server.execute, jobs)


def report(options) -> int:
    import django

    django.setup()
    is_fast = measure(options.pages, options.verbose)
    django.db.connections.close_all()
    return 0 if is_fast else 1


if __name__ == "__main__":
    sys.exit(main())
