"""Statements that have something to do, and what they read beside a crowd."""

from collections.abc import Iterator

import psycopg

from . import crowds
from .crowds import ALL, OWN, Case

SOME = list(range(1, 9))  # ids of READY jobs
SCHEDULES = [900_000 + each for each in SOME]
RETRIES = (
    '[{"id": 9, "lease_token": 1000009, "verdict": "RETRY", "reason": "no",'
    ' "delay": 5, "exception_class": "", "message": "", "traceback": ""},'
    ' {"id": 10, "lease_token": 1000010, "verdict": "RELEASE", "reason": "no",'
    ' "delay": 0, "exception_class": "", "message": "", "traceback": ""}]'
)
SUCCESSORS = """
INSERT INTO pgjobs_job (id, turn, task, keys)
SELECT number + 100, number + 100, 'benchmarks.noop', '{"after": [10]}'
FROM generate_series(1, 20) AS number;
"""
OLD_JOBS = """
UPDATE pgjobs_job SET status = 'SUCCESSFUL', started_at = '2020-01-01', attempts = 1,
    last_attempted_at = '2020-01-01', finished_at = '2020-01-01'
WHERE id < 9;
INSERT INTO pgjobs_attempt (job_id, life, number, worker_name, started_at, finished_at,
    outcome, message)
SELECT id, 1, 1, '', now(), now(), 'FAILED', '' FROM pgjobs_job WHERE id < 9
"""
OLD_EVENTS = """
INSERT INTO pgjobs_event (id, name, published_at, handlers)
SELECT -number, 'old', '2020-01-01', 1 FROM generate_series(1, 8) AS number;
INSERT INTO pgjobs_delivery (job_id, event_id, task)
SELECT 900 + number, -number, 'benchmarks.noop' FROM generate_series(1, 8) AS number
"""
LATE_EVENTS = """
INSERT INTO pgjobs_subscription (task, event) VALUES ('task own', 'own');
INSERT INTO pgjobs_event (id, name) SELECT -number, 'own'
FROM generate_series(1, 8) AS number
"""
LEFT_ROWS = """
INSERT INTO pgjobs_attempt (job_id, life, number, worker_name, started_at, finished_at,
    outcome, message)
SELECT 900 + number, 1, 1, '', now(), now(), 'FAILED', ''
FROM generate_series(1, 8) AS number
"""
AWAITING = """
INSERT INTO pgjobs_schedule (id, name, task, every, anchor, last_job_id)
SELECT 900000 + number, 'schedule own ' || number, 'benchmarks.noop', interval '1 day',
    'end', 900 + number
FROM generate_series(1, 8) AS number;
"""
DUE = """
INSERT INTO pgjobs_schedule (id, name, task, every, next_run_at, last_job_id)
SELECT 900000 + number, 'schedule own ' || number, 'benchmarks.noop', interval '1 day',
    '2020-01-01T00:00Z', number
FROM generate_series(1, 8) AS number;
"""
SCHEDULED = """
UPDATE pgjobs_job SET status = 'SCHEDULED', run_after = now() WHERE id < 9
"""
UNDECIDED = """
UPDATE pgjobs_job SET status = 'WAITING', waiting_for = 'dependency', line = 'undecided'
WHERE id < 4
"""
DECISIONS = """
[{"id": 1, "jobs": [9]}, {"id": 2, "reason": "no"}, {"id": 3, "jobs": [9, 10]}]
"""
REPORTS = """
[{"id": 9, "lease_token": 1000009, "done": 1, "log": "x"},
 {"id": 10, "lease_token": 1000010, "done": 1, "log": "x"}]
"""
CANCELLED = """
UPDATE pgjobs_job SET status = 'CANCELLED', finished_at = now(), worker_id = NULL
WHERE id = 10
"""
FAILED = """
UPDATE pgjobs_job SET status = 'FAILED', started_at = now(), attempts = 1,
    finished_at = now(), keys = '{"has_successors": true}'
WHERE id < 9;
INSERT INTO pgjobs_job (id, turn, task, status, finished_at, blocked_by_id, keys)
SELECT number + 100, number + 100, 'benchmarks.noop', 'CANCELLED', now(), number,
    jsonb_build_object('after', jsonb_build_array(number))
FROM generate_series(1, 8) AS number;
INSERT INTO pgjobs_predecessor (job_id, predecessor_id, is_open)
SELECT number + 100, number, false FROM generate_series(1, 8) AS number
"""
UNIQUE = """
INSERT INTO pgjobs_job (id, turn, task, unique_key, unique_for)
SELECT number + 100, number + 100, 'benchmarks.noop', 'own ' || number, 'unfinished'
FROM generate_series(1, 8) AS number;
INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
SELECT number + 100, 9, 'dependency' FROM generate_series(1, 8) AS number
"""
OVER = """
INSERT INTO pgjobs_job (id, turn, task, unique_key, unique_for, unique_until)
SELECT number + 100, number + 100, 'benchmarks.noop', 'own ' || number, 'period',
    now() - interval '1 hour'
FROM generate_series(1, 8) AS number
"""
EXPIRED = "UPDATE pgjobs_job SET expires_at = now() WHERE id < 9"
ORPHANED = "UPDATE pgjobs_job SET worker_id = 4000000 WHERE id IN (9, 10)"
SUBSCRIBED = "INSERT INTO pgjobs_subscription (task, event) VALUES ('task own', 'own')"
FULL_RATES = """
INSERT INTO pgjobs_rate (key, full_at)
SELECT 'full ' || number, now() - interval '1 day' FROM generate_series(1, 8) AS number
"""
REPLACE = """
SELECT pgjobs_replace_held(
    %(keys)s, %(periods)s, %(args)s, %(kwargs)s, %(none)s, %(none)s, %(never)s,
    %(never)s, %(none)s
)
"""
UNIQUE_KEYS = [f"own {each}" for each in SOME]
TICKS = """
INSERT INTO pgjobs_tick (id, schedule_id, time)
SELECT number, 900000 + number, '2020-01-01T00:00Z' FROM generate_series(1, 8) AS number
"""


ROWS_READ = """
SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint
FROM pg_stat_xact_user_tables
"""
# Some of each kind: what an admission does about them is more than what it reads.
ARRIVALS = """
INSERT INTO pgjobs_job (id, turn, task, keys)
SELECT number + 100, number + 100, 'benchmarks.noop', CASE number % 6
        WHEN 0 THEN jsonb_build_object('lock', 'own ' || number)
        WHEN 1 THEN '{"lock": "own", "is_ordered": false}'
        WHEN 2 THEN '{"limit_key": "own", "max_running": 2}'
        WHEN 3 THEN jsonb_build_object(
            'rate_key', 'own ' || number, 'rate_interval', 60, 'rate_burst', 1
        )
        WHEN 4 THEN jsonb_build_object('after', jsonb_build_array(number / 6 + 1, 9))
        ELSE jsonb_build_object('after_batches', jsonb_build_array(number))
    END
FROM generate_series(1, 24) AS number
"""


def all_rows_read(connection: psycopg.Connection) -> Iterator[tuple[str, int]]:
    """Yield the rows that each statement reads, of the acts by both kinds of plans."""
    from pgjobs.worker.connections.connection import ONE_PLAN

    connection.execute(ONE_PLAN)
    for name, case in (crowds.cases() | upkeep() | running()).items():
        yield name, rows_read(connection, case)
    connection.execute("RESET ALL")
    for mode in ("force_custom_plan", "force_generic_plan"):
        connection.execute(f"SET plan_cache_mode = {mode}")
        for name, case in acts().items():
            yield f"{name}, {mode}", rows_read(connection, case)


def rows_read(connection: psycopg.Connection, case: Case) -> int:
    """Return how many rows the statement reads; nothing of it stays.

    What it writes takes more blocks where the indexes are deeper, but no more rows.
    """
    run = crowds.prepare(connection, case)
    with connection.transaction(force_rollback=True):
        if case.before:
            connection.execute(case.before)
        ((before,),) = connection.execute(ROWS_READ)
        connection.execute(run)
        ((after,),) = connection.execute(ROWS_READ)
    connection.execute("DEALLOCATE measured")
    return after - before


def running() -> dict[str, Case]:
    """Return statements that admit, claim and record jobs."""
    from pgjobs.queue.admitting import BEGINNING, NO_WORKER, admit_statement
    from pgjobs.queue.recording import Success, success_parameters
    from pgjobs.sql import statement

    nothing = success_parameters(NO_WORKER, ())
    ended = success_parameters(OWN["worker_id"], [Success(10, 1_000_010, None)])
    failed = {
        "outcomes": RETRIES,
        "unknown_task_grace": 600,
        "worker_name": "own",
    } | OWN
    return {
        "admit arrivals": Case(*admit_statement(BEGINNING, False, nothing), ARRIVALS),
        "claim arrivals": Case(
            *admit_statement(BEGINNING, False, nothing | OWN, claims=True, limit=100),
            ARRIVALS,
        ),
        "admit successors": Case(*admit_statement(BEGINNING, False, ended), SUCCESSORS),
        "end successors": Case(
            *admit_statement(BEGINNING, False, nothing), SUCCESSORS + CANCELLED
        ),
        "record retries": Case(
            statement("record_with_group"), failed | {"version": ""}
        ),
        "record without group": Case(statement("record"), failed),
        "report": Case(
            statement("report"), {"reports": REPORTS, "longest_log": 1_000, **OWN}
        ),
        "claim these": Case(statement("claim_these"), {"ids": SOME, **OWN}),
        "depend": Case(statement("depend"), {"decisions": DECISIONS}, UNDECIDED),
        "prerequisites": Case(
            statement("prerequisites"), {"keys": ["a", "b"], "withins": [1.0, 2.0]}
        ),
    }


def upkeep() -> dict[str, Case]:
    """Return statements of the upkeep."""
    from pgjobs.queue.slices import OLDEST
    from pgjobs.queue.upkeep import BATCH, LOCK_CLASS
    from pgjobs.sql import statement

    batch = {"limit": BATCH, **ALL}
    old = {"age": 86_400.0, "limit": BATCH, **OLDEST._asdict()}
    due = ["2020-01-01T00:00Z"] * len(SOME)
    plans = {
        "ids": SCHEDULES,
        "expected": due,
        "next_runs": ["2100-01-01T00:00Z"] * len(SOME),
        "skips": [0] * len(SOME),
        "errors": [""] * len(SOME),
        "tick_schedules": SCHEDULES,
        "tick_times": due,
    }
    return {
        "rescue some": Case(
            statement("rescue"), {"lock_class": LOCK_CLASS, **OWN, **batch}, ORPHANED
        ),
        "expire some": Case(statement("expire"), batch, EXPIRED),
        "promote some": Case(statement("promote"), batch, SCHEDULED),
        "prune some": Case(
            statement("prune"), {"status": "SUCCESSFUL", **old, **ALL}, OLD_JOBS
        ),
        "prune failed": Case(statement("prune"), {"status": "FAILED", **old, **ALL}),
        "prune left rows": Case(
            statement("prune_left_rows"), {"after": 0, "limit": BATCH}, LEFT_ROWS
        ),
        "prune events some": Case(statement("prune_events"), old, OLD_EVENTS),
        "forget rates some": Case(
            statement("forget_rates"), {"limit": BATCH}, FULL_RATES
        ),
        "deliver late some": Case(
            statement("deliver_late"), {"grace": 1e9, "limit": BATCH}, LATE_EVENTS
        ),
        "next fire some": Case(
            statement("next_fire"), {"after": 0, "limit": 1_000}, AWAITING
        ),
        "due schedules some": Case(statement("due_schedules"), {"limit": 100}, DUE),
        "fire": Case(statement("fire"), plans, DUE),
        "link ticks": Case(
            statement("link_ticks"),
            {"ticks": SOME, "jobs": [*SOME[1:], None]},
            DUE + TICKS,
        ),
    }


def acts() -> dict[str, Case]:
    """Return statements that an application sends on Django's connection."""
    from pgjobs.sql import statement

    some = {"ids": SOME}
    reason = {"reason": "no"}
    return {
        "cancel": Case(statement("cancel"), some | reason),
        "fail": Case(statement("fail"), some | reason),
        "fail running": Case(statement("fail"), {"ids": [9, 10]} | reason),
        "succeed": Case(
            statement("succeed"), some | {"return_value": None, "own_values": None}
        ),
        "retry": Case(statement("retry"), some, FAILED),
        "discard": Case(statement("discard"), some),
        "delete": Case("DELETE FROM pgjobs_job WHERE id = ANY (%(ids)s)", some, FAILED),
        "run now": Case(statement("run_now"), some, SCHEDULED),
        "replace": Case(
            REPLACE,
            {
                "keys": UNIQUE_KEYS,
                "periods": ["unfinished"] * len(SOME),
                "args": ["[]"] * len(SOME),
                "kwargs": ["{}"] * len(SOME),
                "none": [None] * len(SOME),
                "never": [None] * len(SOME),
            },
            UNIQUE,
        ),
        "free keys": Case(statement("free_keys"), {"unique_keys": UNIQUE_KEYS}, OVER),
        "publish": Case(
            statement("publish"),
            {
                "name": "own",
                "payload": "{}",
                "aggregate_id": None,
                "correlation_id": None,
                "meta": None,
            },
            SUBSCRIBED,
        ),
        "deliver": Case(
            statement("deliver"),
            {"ids": [-each for each in SOME], "origin": "again", "task": "task own"},
            LATE_EVENTS,
        ),
        "pack jobs": Case(
            statement("pack_jobs"),
            some
            | {"move": "00000000-0000-4000-8000-000000000000"}
            | {"arguments": '{"tenant": 1}'},
        ),
        "mark step": Case(
            statement("mark_step"),
            {"job_id": 9, "lease_token": 1_000_009, "name": "a", "return_value": None},
        ),
    }
