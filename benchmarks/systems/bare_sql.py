"""What PostgreSQL itself allows: a bare table, one connection, no jobs to run.

The table has the columns that no queue can do without, the claim's index and the
trigger that notifies once per statement. Claim and record share a statement.
"""

import os

import psycopg

from benchmarks.adapter import OPTIONS
from benchmarks.tasks import stamp

SCHEMA = """
CREATE TABLE bare_job (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task text NOT NULL,
    kwargs jsonb NOT NULL,
    queue_name text NOT NULL DEFAULT 'default',
    priority smallint NOT NULL DEFAULT 0,
    status text NOT NULL DEFAULT 'READY',
    worker_id bigint,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    finished_at timestamptz
);
CREATE INDEX bare_job_ready ON bare_job (queue_name, priority DESC, id)
    WHERE status = 'READY';

CREATE FUNCTION bare_job_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('bare_job', queue.name)
    FROM (SELECT DISTINCT queue_name FROM inserted) AS queue (name);
    RETURN NULL;
END
$$;
CREATE TRIGGER bare_job_notify
    AFTER INSERT ON bare_job REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION bare_job_notify();
"""
ONE_PLAN = """
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
SET plan_cache_mode = force_generic_plan
"""
ENQUEUE = """
INSERT INTO bare_job (task, kwargs)
VALUES (%s, jsonb_build_object('number', %s::int)) RETURNING id
"""
ENQUEUE_MANY = """
INSERT INTO bare_job (task, kwargs)
SELECT %s, jsonb_build_object('number', number)
FROM unnest(%s::int[]) AS number RETURNING id
"""
ROUND_TRIP = """
WITH recorded AS (
    UPDATE bare_job
    SET status = 'SUCCESSFUL', finished_at = clock_timestamp(), worker_id = NULL
    WHERE id = ANY (%(done)s::bigint[]) AND worker_id = 1
)
UPDATE bare_job
SET status = 'RUNNING', started_at = clock_timestamp(), worker_id = 1
WHERE id = ANY (ARRAY(
    SELECT id FROM bare_job
    WHERE queue_name = 'default' AND status = 'READY'
    ORDER BY priority DESC, id
    LIMIT %(batch)s
    FOR UPDATE SKIP LOCKED
))
RETURNING id, task, kwargs
"""
UNFINISHED = "SELECT count(*) FROM bare_job WHERE status IN ('READY', 'RUNNING')"
FILL = {
    status: f"""
        INSERT INTO bare_job (task, kwargs, status, finished_at)
        SELECT 'noop', '{{"number": 1}}', '{name}', {finished_at}
        FROM generate_series(1, %s)
    """
    for status, name, finished_at in [
        ("finished", "SUCCESSFUL", "now()"),
        ("scheduled", "SCHEDULED", "NULL"),
        ("waiting", "WAITING", "NULL"),
        ("ready", "READY", "NULL"),
    ]
}

connection = psycopg.connect(
    os.environ["DATABASE_URL"], autocommit=True, prepare_threshold=0
)


def setup():
    connection.execute(SCHEMA, prepare=False)


def enqueue(task, number):
    connection.execute(ENQUEUE, [task, number]).fetchone()


def enqueue_many(task, numbers):
    connection.execute(ENQUEUE_MANY, [task, list(numbers)]).fetchall()


def unfinished():
    return connection.execute(UNFINISHED).fetchone()[0]


def fill(status, number):
    connection.execute(FILL[status], [number])


def work():
    connection.execute(ONE_PLAN, prepare=False)
    connection.execute("LISTEN bare_job")
    done = []
    while True:
        parameters = {"done": done, "batch": OPTIONS["batch"]}
        claimed = connection.execute(ROUND_TRIP, parameters).fetchall()
        for _, task, kwargs in claimed:
            if task == "stamp":
                stamp(**kwargs)
        if not claimed and not done:
            next(connection.notifies(timeout=60, stop_after=1), None)
        done = [id for id, _, _ in claimed]
