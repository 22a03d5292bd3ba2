"""What worker statements read beside thousands of one thing, counted in blocks.

Each crowd fills the tables with a number of things that the worker's next statement
has nothing to do with. Blocks tell without a clock whether a statement reads them.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

PARAMETER = re.compile(r"%\((\w+)\)s")
EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE measured {}"

TABLES = (
    "pgjobs_job",
    "pgjobs_batch",
    "pgjobs_event",
    "pgjobs_delivery",
    "pgjobs_worker",
    "pgjobs_queue",
    "pgjobs_predecessor",
    "pgjobs_prerequisite",
    "pgjobs_rate",
    "pgjobs_note",
    "pgjobs_figure",
    "pgjobs_errorgroup",
    "pgjobs_auditentry",
    "pgjobs_wait",
    "pgjobs_waitnote",
    "pgjobs_awaitedevent",
)
DECLARED = """
DELETE FROM pgjobs_schedule WHERE name LIKE 'schedule %';
DELETE FROM pgjobs_subscription WHERE task LIKE 'task %'
"""
EMPTY = f"TRUNCATE {', '.join(TABLES)} CASCADE; {DECLARED}"
DELETE = "".join(f"DELETE FROM {table};" for table in TABLES) + DECLARED
# Jobs that a statement inserts get other ids than those of a stage and a crowd.
OTHER_IDS = "SELECT setval('pgjobs_job_id_seq', 1000000)"
# Triggers would admit, notify and check what a crowd is made of.
QUICKLY = "SET session_replication_role = replica"
NORMALLY = "SET session_replication_role = origin"

# The worker that asks, what it runs, and what it finds READY.
STAGE = """
INSERT INTO pgjobs_queue (name) VALUES ('default');
INSERT INTO pgjobs_worker
    (id, name, host, pid, queues, excluded, slots, units, started_at, heartbeat_at,
     beating_since, lease_until, heartbeat_interval, holds_session_lock)
VALUES
    (1000000, 'own', 'here', 1, '', '', 4, 1000, now(), now(),
     now() - interval '1 hour', now() + interval '2 hours', 3600, false),
    (2000000, 'other', 'there', 1, '', '', 4, 1000, now(), now(),
     now() - interval '1 hour', now() + interval '2 hours', 3600, false);
INSERT INTO pgjobs_job (id, turn, task, priority)
SELECT number, number, 'benchmarks.noop', 100 FROM generate_series(1, 8) AS number;
INSERT INTO pgjobs_job
    (id, turn, task, status, worker_id, lease_token, attempts, started_at,
     last_attempted_at, keys)
VALUES
    (9, 9, 'benchmarks.noop', 'RUNNING', 1000000, 1000009, 1, now(), now(), NULL),
    (10, 10, 'benchmarks.noop', 'RUNNING', 1000000, 1000010, 1, now(), now(),
     '{"lock": "lock 1", "limit_key": "limit 1", "max_running": 1,
       "has_successors": true}');
"""
WAITING = """
INSERT INTO pgjobs_job (id, turn, task, status, waiting_for, line, keys)
SELECT number + {first}, number + {first}, 'benchmarks.noop', 'WAITING', '{kind}',
    '{line} ' || {key}, {keys}
FROM generate_series(1, %(waiting)s) AS number
"""
READY = """
INSERT INTO pgjobs_job (id, turn, task, queue_name, priority, process_units)
SELECT number + 1000, number + 1000, 'benchmarks.noop', {queue}, {priority}, {units}
FROM generate_series(1, {number}) AS number
"""
RUNNING = """
INSERT INTO pgjobs_job
    (id, turn, task, status, worker_id, lease_token, attempts, started_at, keys)
SELECT number + 1000, number + 1000, 'benchmarks.noop', 'RUNNING', 2000000,
    number + 2000000, 1, now(), {keys}
FROM generate_series(1, %(number)s) AS number
"""
NUMBERS = "generate_series(1, %(number)s) AS number"
BEHIND = 10_000_000  # ids of what waits


def waiting(kind: str, line: str, key: str, keys: str) -> str:
    return WAITING.format(first=BEHIND, kind=kind, line=line, key=key, keys=keys)


def ready(
    queue: str = "'default'",
    priority: str = "0",
    units: str = "NULL",
    number: str = "%(number)s",
) -> str:
    return READY.format(queue=queue, priority=priority, units=units, number=number)


OF_NUMBER = "(number %% %(number)s + 2)"
LOCKED = f"jsonb_build_object('lock', 'lock ' || {OF_NUMBER})"
MUTEX = f"{LOCKED} || '{{\"is_ordered\": false}}'"
LIMITED = f"jsonb_build_object('limit_key', 'limit ' || {OF_NUMBER}, 'max_running', 1)"
RATED = (
    f"jsonb_build_object('rate_key', 'rate ' || {OF_NUMBER}, 'rate_interval', 3600,"
    " 'rate_burst', 1)"
)
KEY_BESIDE = "jsonb_build_object('lock', 'beside' || number)"
WORKERS = f"""
INSERT INTO pgjobs_worker
    (id, name, host, pid, queues, excluded, slots, units, started_at, heartbeat_at,
     beating_since, lease_until, heartbeat_interval, holds_session_lock)
SELECT number, 'worker ' || number, 'there', 1, '', '', 4, NULL, now(),
    now(), now() - interval '1 hour', now() + interval '2 hours', 3600, false
FROM {NUMBERS}
"""

# What waits beside a crowd that has no waiting jobs of its own.
BESIDE = waiting("lock", "lock beside", "number", KEY_BESIDE)
# Each crowd is a number of things, and jobs that wait beside them.
CROWDS: dict[str, list[str]] = {
    "queues": [
        f"INSERT INTO pgjobs_queue (name) SELECT 'queue ' || number FROM {NUMBERS}",
        ready("'queue ' || number"),
    ],
    "paused queues": [
        "INSERT INTO pgjobs_queue (name, paused_at)"
        f" SELECT 'queue ' || number, now() FROM {NUMBERS}",
        """
        INSERT INTO pgjobs_job
            (id, turn, task, queue_name, status, waiting_for, line, keys)
        SELECT number + 10000000, number + 10000000, 'benchmarks.noop',
            'queue ' || number %% %(number)s + 1, 'WAITING', 'lock', 'arrived',
            jsonb_build_object('lock', 'lock ' || number)
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "priorities": [ready(priority="99 - number %% 200", number="%(waiting)s")],
    "jobs of one paused queue": [
        "INSERT INTO pgjobs_queue (name, paused_at) VALUES ('paused', now())",
        ready("'paused'", number="%(waiting)s"),
    ],
    "heavy jobs": [ready(units="2000", number="%(waiting)s")],
    "jobs of a full host": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, worker_id, lease_token, attempts, started_at,
             process_units)
        VALUES
            (11, 11, 'benchmarks.noop', 'RUNNING', 1000000, 1000011, 1, now(), 998)
        """,
        ready(units="500", number="%(waiting)s"),
    ],
    "jobs of many weights": [ready(units="1000 + number")],
    "lock keys": [
        RUNNING.format(keys="jsonb_build_object('lock', 'lock ' || number + 1)"),
        waiting("lock", "lock lock", OF_NUMBER, LOCKED),
    ],
    "mutex keys": [
        RUNNING.format(
            keys="jsonb_build_object('lock', 'lock ' || number + 1,"
            " 'is_ordered', false)"
        ),
        waiting("lock", "mutex lock", OF_NUMBER, MUTEX),
    ],
    "limit keys": [
        RUNNING.format(
            keys="jsonb_build_object('limit_key', 'limit ' || number + 1,"
            " 'max_running', 1)"
        ),
        waiting("limit", "limit limit", OF_NUMBER, LIMITED),
    ],
    "rate keys": [
        "INSERT INTO pgjobs_rate (key, full_at, opens_at, starts, counts)"
        " SELECT 'rate ' || number + 1, now() + interval '1 hour',"
        f" now() + interval '1 hour', ARRAY[now()], ARRAY[1] FROM {NUMBERS}",
        waiting("rate", "rate rate", OF_NUMBER, RATED),
    ],
    "jobs of one lock": [
        waiting("lock", "lock lock", "1", """'{"lock": "lock 1"}'"""),
    ],
    "jobs of one limit": [
        waiting(
            "limit",
            "limit limit",
            "1",
            """'{"limit_key": "limit 1", "max_running": 1}'""",
        ),
    ],
    "schedules": [
        "INSERT INTO pgjobs_schedule (name, task, every, next_run_at)"
        " SELECT 'schedule ' || number, 'benchmarks.noop', interval '1 day',"
        f" now() + interval '1 day' FROM {NUMBERS}",
    ],
    "schedules that wait for their run": [
        "INSERT INTO pgjobs_schedule (name, task, every, anchor, last_job_id)"
        " SELECT 'schedule ' || number, 'benchmarks.noop', interval '1 day', 'end',"
        f" 1000 + number FROM {NUMBERS}",
        RUNNING.format(keys="NULL"),
    ],
    "subscribers": [
        "INSERT INTO pgjobs_subscription (task, event)"
        f" SELECT 'task ' || number, 'event-' || number FROM {NUMBERS}",
    ],
    "subscribers of unhandled events": [
        "INSERT INTO pgjobs_event (name) VALUES ('other')",
        "INSERT INTO pgjobs_subscription (task, event)"
        f" SELECT 'task ' || number, 'event-' || number || '.*' FROM {NUMBERS}",
    ],
    "names of unhandled events": [
        f"INSERT INTO pgjobs_event (name) SELECT 'name-' || number FROM {NUMBERS}",
    ],
    "unhandled events": [
        "INSERT INTO pgjobs_event (name, published_at)"
        " SELECT 'name', now() - interval '1 day'"
        " FROM generate_series(1, %(waiting)s) AS number",
    ],
    "batches": [
        "INSERT INTO pgjobs_batch (id, enqueued_at)"
        f" SELECT number, now() - interval '1 day' FROM {NUMBERS}",
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, waiting_for, line, keys, batch_id)
        SELECT number + 10000000, number + 10000000, 'benchmarks.noop', 'WAITING',
            'predecessor', 'predecessor', '{"after": [10]}',
            number %% %(number)s + 1
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "chains": [
        RUNNING.format(keys="""'{"has_successors": true}'"""),
        """
        INSERT INTO pgjobs_job (id, turn, task, status, waiting_for, line, keys)
        SELECT number + 10000000, number + 10000000, 'benchmarks.noop', 'WAITING',
            'predecessor', 'predecessor', '{"after": [1001]}'
        FROM generate_series(1, %(waiting)s) AS number
        """,
        """
        INSERT INTO pgjobs_predecessor (job_id, predecessor_id)
        SELECT number + 10000000, 1001 + number %% %(number)s
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "workers": [WORKERS],
    "unknown tasks": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, run_after, enqueued_at, attempts)
        SELECT number + 1000, number + 1000, 'task ' || number, 'SCHEDULED',
            now() + interval '1 hour', now(), 1
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "undecided jobs of unknown tasks": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, waiting_for, line, dependencies)
        SELECT number + 1000, number + 1000, 'task ' || number, 'WAITING', 'dependency',
            'undecided', '{"needs": [], "serves": []}'
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "prerequisites": [
        "INSERT INTO pgjobs_prerequisite (job_id, key, finished_at)"
        f" SELECT number, 'key ' || number, now() FROM {NUMBERS}",
    ],
    "finished jobs": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, started_at, finished_at, attempts, keys, line)
        SELECT number + 1000, number + 1000, 'benchmarks.noop',
            (ARRAY['SUCCESSFUL', 'FAILED'])[number %% 2 + 1], now(), now(), 1,
            CASE number %% 3 WHEN 0 THEN '{"lock": "lock 1"}'::jsonb END, NULL
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "old jobs that schedules keep": [
        "INSERT INTO pgjobs_schedule (name, task, every, next_run_at, last_job_id)"
        " SELECT 'schedule ' || number, 'benchmarks.noop', interval '1 day',"
        f" now() + interval '1 day', 1000 + number FROM {NUMBERS}",
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, started_at, finished_at, attempts)
        SELECT number + 1000, number + 1000, 'benchmarks.noop', 'SUCCESSFUL',
            now() - interval '100 days', now() - interval '100 days', 1
        FROM generate_series(1, %(number)s) AS number
        """,
    ],
    "jobs that finished long ago": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, started_at, finished_at, attempts)
        SELECT number + 1000, number + 1000, 'benchmarks.noop', 'SUCCESSFUL',
            now() - interval '200 days',
            now() - interval '100 days' + number * interval '1 s', 1
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "dead letters": [
        "INSERT INTO pgjobs_event (id, name, published_at, handlers)"
        " SELECT number, 'name', now() - interval '100 days', 1"
        " FROM generate_series(1, %(waiting)s) AS number",
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, started_at, finished_at, attempts)
        SELECT number + 1000, number + 1000, 'benchmarks.noop', 'FAILED',
            now() - interval '100 days', now() - interval '100 days', 1
        FROM generate_series(1, %(waiting)s) AS number
        """,
        "INSERT INTO pgjobs_delivery (job_id, event_id, task)"
        " SELECT number + 1000, number, 'benchmarks.noop'"
        " FROM generate_series(1, %(waiting)s) AS number",
    ],
    "scheduled jobs that expire": [
        """
        INSERT INTO pgjobs_job (id, turn, task, status, run_after, expires_at)
        SELECT number + 1000, number + 1000, 'benchmarks.noop', 'SCHEDULED',
            now() + interval '1 hour', now() + interval '2 hours'
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "full rates": [
        "INSERT INTO pgjobs_rate (key, full_at)"
        f" SELECT 'rate ' || number, now() + interval '1 day' FROM {NUMBERS}",
    ],
    "figures": [
        """
        INSERT INTO pgjobs_figure
            (span, start, queue_name, task, run_times, wait_times)
        SELECT 1, now(), 'default', 'task ' || number, '{}', '{}'
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "groups of errors": [
        """
        INSERT INTO pgjobs_errorgroup
            (id, task, exception_class, place, message, version)
        SELECT number, 'task ' || number, 'ValueError', 'place', 'message', ''
        FROM generate_series(1, %(waiting)s) AS number
        """,
    ],
    "tasks that wait for events": [
        """
        INSERT INTO pgjobs_job
            (id, turn, task, status, waiting_for, line, attempts, keys)
        SELECT number + 10000000, number + 10000000, 'benchmarks.noop', 'WAITING',
            'event', 'unknown', 1, '{"waits_for": ["order.paid"]}'
        FROM generate_series(1, %(waiting)s) AS number
        """,
        """
        INSERT INTO pgjobs_wait
            (job_id, life, name, kind, event, aggregate_id, deadline)
        SELECT number + 10000000, 1, 'paid', 'event', 'order.paid', number::text,
            now() + interval '30 days'
        FROM generate_series(1, %(waiting)s) AS number
        """,
        "INSERT INTO pgjobs_waitnote (job_id, due_at)"
        " SELECT job_id, deadline FROM pgjobs_wait",
    ],
    "entries of the audit trail": [
        "INSERT INTO pgjobs_auditentry (actor, via, act, model)"
        " SELECT 'ada', 'page', 'cancel', 'job'"
        " FROM generate_series(1, %(waiting)s) AS number",
    ],
}


class Case(NamedTuple):
    """A statement of the worker, and what happens before it in its transaction."""

    text: str
    parameters: dict[str, Any]
    before: str = ""


FIGURES = (
    '[{"queue_name": "default", "task": "benchmarks.noop", "seconds": 1,'
    ' "successful": 1, "failed": 0, "cancelled": 0, "retried": 0,'
    ' "run_buckets": [[40, 1]], "wait_buckets": [[9, 1]]}]'
)
ALL = {"only": None, "skipped": "{}"}
OWN = {"worker_id": 1_000_000}


def cases() -> dict[str, Case]:
    """Return the statements of a worker that has next to nothing to do."""
    from pgjobs.queue.admitting import BEGINNING, NO_WORKER, admit_statement
    from pgjobs.queue.claiming import (
        HostUnits,
        claim_statement,
        first_fetch,
        record_statement,
    )
    from pgjobs.queue.recording import Success, success_parameters
    from pgjobs.queue.slices import OLDEST
    from pgjobs.queue.upkeep import BATCH, LOCK_CLASS, survey
    from pgjobs.sql import statement
    from pgjobs.worker.upkeep.chores import questions

    batch = {"limit": BATCH, **ALL}
    nothing = success_parameters(NO_WORKER, ())  # to record
    old = {"age": 86_400.0, "limit": BATCH, **OLDEST._asdict()}
    ended = "UPDATE pgjobs_job SET status = 'CANCELLED', finished_at = now(),"
    ended += " reason = 'Cancelled.', worker_id = NULL WHERE id = 10"
    outcome = (
        '[{"id": 9, "lease_token": 1000009, "verdict": "FAIL", "reason": "no",'
        ' "exception_class": "", "message": "", "traceback": "", "error_group": 7,'
        ' "place": "", "pattern": ""}]'
    )
    published = (
        "INSERT INTO pgjobs_event (id, name) VALUES (999999999, 'order.paid');"
        "INSERT INTO pgjobs_awaitedevent VALUES (999999999, 'order.paid', '5', 0, 1);"
        "INSERT INTO pgjobs_waitnote (event_id) VALUES (999999999)"
    )
    units = {"units": HostUnits("here", 1_000)}
    held = {"ids": [9, 10], "lease_tokens": [1_000_009, 1_000_010]}
    own = 1_000_000
    return {
        "claim": Case(*claim_statement(own, limit=4)),
        "record and claim": Case(
            *claim_statement(own, [Success(9, 1_000_009, None)], 4)
        ),
        "claim by queue": Case(
            *claim_statement(own, limit=4, fetch=first_fetch(4, by_queue=True))
        ),
        "claim of some queues": Case(
            *claim_statement(
                own, limit=4, fetch=first_fetch(4, True), queues=["default"]
            )
        ),
        "claim with units": Case(
            *claim_statement(own, limit=4, fetch=first_fetch(4, True), **units)
        ),
        "record successes": Case(
            *record_statement(own, [Success(10, 1_000_010, None)])
        ),
        "record": Case(
            statement("record_with_group"),
            {
                "outcomes": outcome,
                "unknown_task_grace": 600,
                "worker_name": "own",
                "version": "",
                **OWN,
            },
        ),
        "admit": Case(*admit_statement(BEGINNING, False, nothing)),
        "admit after an end": Case(*admit_statement(BEGINNING, False, nothing), ended),
        "sweep": Case(*admit_statement(BEGINNING, True, nothing)),
        "chores": Case(
            survey(tuple(questions().values())),
            {"with_ready": True, "leads_for": 1.0, **OWN},
        ),
        "rescue": Case(statement("rescue"), {"lock_class": LOCK_CLASS, **OWN, **batch}),
        "expire": Case(statement("expire"), batch),
        "promote": Case(statement("promote"), batch),
        "prune": Case(statement("prune"), {"status": "SUCCESSFUL", **old, **ALL}),
        "prune batches": Case(statement("prune_batches"), {"after": 0, "limit": BATCH}),
        "prune events": Case(statement("prune_events"), old),
        "add figures": Case(
            statement("add_figures"), {"rows": FIGURES, "most_pairs": 100}
        ),
        "prune figures": Case(
            statement("prune_figures"),
            {"minutes": 1e6, "hours": 1e8, "limit": BATCH, "groups": BATCH},
        ),
        "prune audit": Case(statement("prune_audit"), {"age": 1e6, "limit": BATCH}),
        "forget rates": Case(statement("forget_rates"), {"limit": BATCH}),
        "deliver late": Case(
            statement("deliver_late"), {"grace": 3_600.0, "limit": BATCH}
        ),
        "next fire": Case(statement("next_fire"), {"after": 0, "limit": 1_000}),
        "due schedules": Case(statement("due_schedules"), {"limit": 100}),
        "wake": Case(statement("wake"), {"limit": 100}),
        "wake after an event": Case(statement("wake"), {"limit": 100}, published),
        "undecided": Case(
            statement("undecided"),
            {"most": 1_000, "limit": 100, "tasks": [], "unknown_task_grace": 600.0},
        ),
        "too heavy": Case(
            statement("too_heavy"),
            {"total": 1_000, "queues": None, "excluded": [], "limit": 100},
        ),
        "cancel requests": Case(
            statement("cancel_requests"), {"held": held["ids"], **OWN}
        ),
        "orphans": Case(
            statement("orphans"), {"lease_tokens": held["lease_tokens"], **OWN}
        ),
        "in doubt": Case(statement("in_doubt"), held),
        "locked": Case(statement("locked"), {"ids": held["ids"], **OWN}),
    }


def fill(connection: psycopg.Connection, crowd: str, number: int, waiting: int) -> None:
    """Replace all jobs by those of the stage and of the crowd."""
    empty(connection)
    put(connection, crowd, number, waiting)
    connection.execute("VACUUM ANALYZE")


def fill_unseen(
    connection: psycopg.Connection, crowd: str, number: int, waiting: int
) -> None:
    """Do as `fill`, and let the statistics say that the tables are empty.

    VACUUM says so of a queue that workers have drained.
    """
    empty(connection)
    put(connection, crowd, 1, 1)
    connection.execute(QUICKLY)
    connection.execute(DELETE)
    connection.execute(NORMALLY)
    connection.execute(OTHER_IDS)
    connection.execute("VACUUM (ANALYZE, TRUNCATE off)")
    put(connection, crowd, number, waiting)


def put(connection: psycopg.Connection, crowd: str, number: int, waiting: int) -> None:
    """Insert the jobs of the stage and of the crowd."""
    connection.execute(QUICKLY)
    connection.execute(STAGE)
    texts = CROWDS.get(crowd, [])
    if not any("%(waiting)s" in text for text in texts):
        texts = [*texts, BESIDE]
    for text in texts:
        connection.execute(text, {"number": number, "waiting": waiting})
    connection.execute(NORMALLY)


def empty(connection: psycopg.Connection) -> None:
    """Remove what `fill` has made."""
    connection.execute(QUICKLY)
    connection.execute(EMPTY)
    connection.execute(NORMALLY)


def blocks_read(connection: psycopg.Connection, case: Case) -> int:
    """Return how many blocks the statement touches; nothing of it stays."""
    top = plan_of(connection, case)
    return top["Shared Hit Blocks"] + top["Shared Read Blocks"]


def plan_of(connection: psycopg.Connection, case: Case) -> dict[str, Any]:
    """Return the plan of the statement with what it read; nothing of it stays."""
    explain = prepare(connection, case)
    for _ in range(2):  # the first one also reads the catalogue
        with connection.transaction(force_rollback=True):
            if case.before:
                connection.execute(case.before)
            ((explained,),) = connection.execute(explain)
    connection.execute("DEALLOCATE measured")
    return explained[0]["Plan"]


def prepare(connection: psycopg.Connection, case: Case) -> sql.Composed:
    """Prepare the statement as a worker does; return what explains its one plan.

    EXPLAIN of the statement itself would be planned for the values of its parameters.
    """
    names = list(dict.fromkeys(PARAMETER.findall(case.text)))
    text = PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", case.text)
    given = [case.parameters[name] for name in names]
    types = ", ".join("float8" if type(each) is float else "unknown" for each in given)
    types = f"({types})" if given else ""
    connection.execute(f"PREPARE measured {types} AS " + text.replace("%%", "%"))
    values = list(map(sql.Literal, given))
    listed = (
        sql.SQL("({})").format(sql.SQL(", ").join(values)) if values else sql.SQL("")
    )
    return sql.SQL(EXPLAIN).format(listed)


def measured(connection: psycopg.Connection) -> Iterator[tuple[str, int]]:
    """Yield the blocks that each statement reads."""
    from pgjobs.worker.connections.connection import ONE_PLAN

    connection.execute(ONE_PLAN)
    connection.execute("RESET statement_timeout")
    for name, case in cases().items():
        yield name, blocks_read(connection, case)


# What grows for a reason: blocks for each thing, or whatever their number.
FOR_EACH = {
    # A fetch into each queue takes a probe of the index for each, and so does one for
    # each number of units. A worker with units hops over both, from each to the next.
    ("queues", "claim by queue"): 3.3,
    ("queues", "claim with units"): 6.3,
    ("queues", "too heavy"): 3.1,
    ("jobs of many weights", "claim by queue"): 3.1,
    ("jobs of many weights", "claim of some queues"): 3.1,
    ("jobs of many weights", "too heavy"): 1,
    # Each worker's row is read; a probe follows for each gap between their ids.
    ("workers", "claim with units"): 1,
    ("workers", "chores"): 0.1,
    ("workers", "rescue"): 0.1,
    # Each may have come for events that are there: a probe for its pattern.
    ("subscribers of unhandled events", "deliver late"): 4,
}
A_BATCH = 50_000  # of 1,000 rows or lines at a time
# A thousand jobs are looked at and deleted; others read nothing more.
PRUNED = {("jobs that finished long ago", "prune"): 15_000}
IN_BATCHES = {
    ("paused queues", "admit"),
    ("paused queues", "admit after an end"),
    ("unhandled events", "prune events"),
    ("names of unhandled events", "prune events"),
    ("batches", "prune batches"),
    ("undecided jobs of unknown tasks", "undecided"),
    ("old jobs that schedules keep", "prune"),
    ("dead letters", "prune events"),
    ("dead letters", "prune failed"),
    ("rate keys", "forget rates"),
    ("groups of errors", "prune figures"),
    ("dead letters", "prune left rows"),
    ("schedules that wait for their run", "next fire"),
}


def bound(crowd: str, statement: str, few: int, number: int) -> int:
    """Return the most blocks that a statement may read beside such a crowd.

    `few`: what it reads beside hardly anything.
    """
    statement = statement.removesuffix(" some")
    if statement == "sweep" or (crowd, statement) in IN_BATCHES:
        return A_BATCH
    if bound := PRUNED.get((crowd, statement)):
        return bound
    # Ten thousand rows of a small table take a hundred blocks.
    return few + 60 + number * FOR_EACH.get((crowd, statement), 0.01)
