"""What happened, as PostgreSQL saw it: every version of every job, and more.

**Order.** A trigger writes a version while its transaction holds the row's lock, so
for one job the sequence is the order of the commits. For several jobs: a session that
acted because it saw another transaction's change wrote its own version later, so the
sequence never contradicts a cause. What one transaction wrote counts as one moment.
Where two versions may be unrelated (an order of a lock, say) the commit time of the
one (`track_commit_timestamp`) must be clearly before the other's statement began.

**Time.** A fault steps the server's clock. Each version says by how many seconds it was
wrong (`drift`), by the machine's uptime, so that the checker has true times.

All of this belongs to the superuser. The project, an ordinary role, writes through it.
"""

from typing import Any

import psycopg
from psycopg.rows import namedtuple_row

from .clocks import started_at
from .server import OWNER

# Of a job, as SQL calls it; the names of a Version's fields with it.
COLUMNS = {
    "task": "job.task",
    "mark": "job.kwargs ->> 'mark'",
    "queue": "job.queue_name",
    "status": "job.status",
    "waiting_for": "job.waiting_for",
    "run_after": "job.run_after",
    "attempts": "job.attempts",
    "failures": "job.failures",
    "max_attempts": "job.max_attempts",
    "crashes": "job.crashes",
    "max_crashes": "job.max_crashes",
    "life": "job.life",
    "token": "job.lease_token",
    "worker_id": "job.worker_id",
    "cancel_requested_at": "job.cancel_requested_at",
    "finished_at": "job.finished_at",
    "recorded_attempt": "(job.return_value ->> 'attempt')::integer",
    "reason": "left(job.reason, 200)",
    "blocked_by_id": "job.blocked_by_id",
    "lock": "job.keys ->> 'lock'",
    "is_ordered": "coalesce((job.keys ->> 'is_ordered')::boolean, true)",
    "limit_key": "job.keys ->> 'limit_key'",
    "max_running": "(job.keys ->> 'max_running')::integer",
    "units": "coalesce(job.process_units, 1)",
    "members": "CASE WHEN job.chunk ->> 'attempt' = job.life || ':' || job.attempts"
    " THEN coalesce((job.chunk ->> 'members')::integer, 1) ELSE 1 END",
    "is_companion": "coalesce(job.chunk ->> 'first' <> job.id::text"
    " AND job.chunk ->> 'attempt' = job.life || ':' || job.attempts, false)",
    "unique_key": "job.unique_key",
    "unique_for": "job.unique_for",
    "turn": "job.turn",
    "priority": "job.priority",
    "rate_key": "job.keys ->> 'rate_key'",
    "rate_seconds": "coalesce((job.keys ->> 'rate_interval')::float8 * "
    "coalesce(job.keys ->> 'rate_number', job.keys ->> 'rate_burst')::integer, 0)",
    "rate_number": "coalesce(job.keys ->> 'rate_number', "
    "job.keys ->> 'rate_burst', '0')::integer",
    "rate_burst": "coalesce((job.keys ->> 'rate_burst')::integer, 0)",
    "attempted_at": "extract(epoch FROM job.last_attempted_at)::float8",
    "has_gone_on": "coalesce(job.keys ? 'continued_as', false)",
    "first_id": "(job.keys ->> 'first_id')::bigint",
    "seconds": "coalesce((job.kwargs ->> 'seconds')::float8, 0)",
    "keep": "job.keep",
}
TABLES = """
CREATE SCHEMA chaos;
-- The time, whatever the server's clock says; to a hundredth of a second.
CREATE FUNCTION chaos.now() RETURNS timestamptz LANGUAGE sql VOLATILE
SECURITY DEFINER AS $$
    SELECT to_timestamp(
        {started_at} + split_part(pg_read_file('/proc/uptime'), ' ', 1)::float8
    )
$$;
CREATE TABLE chaos.effect (
    seq bigserial, job_id bigint, life integer, attempt integer, what text,
    at timestamptz DEFAULT chaos.now()
);
CREATE TABLE chaos.gift (
    seq bigserial, mark text, value text, at timestamptz DEFAULT chaos.now()
);
CREATE TABLE chaos.worker (
    seq bigserial, operation text, id bigint, name text, pid integer, slots integer,
    queues text,
    at timestamptz DEFAULT chaos.now()
);
CREATE TABLE chaos.pause (
    seq bigserial, name text, is_paused boolean,
    at timestamptz DEFAULT chaos.now()
);
CREATE TABLE chaos.move (
    seq bigserial, schedule text, every float8, overlap text,
    old_next timestamptz, new_next timestamptz
);
CREATE TABLE chaos.version AS
SELECT 0::bigint AS seq, xid8 '1' AS transaction, ''::text AS operation,
    ''::text AS actor, now() AS began_at, now() AS at, 0::float8 AS drift,
    id AS job_id, {columns}
FROM pgjobs_job AS job LIMIT 0;
CREATE SEQUENCE chaos.version_seq OWNED BY chaos.version.seq;
-- The project's tasks note what they do.
GRANT USAGE ON SCHEMA chaos TO {owner};
GRANT INSERT ON chaos.effect TO {owner};
GRANT INSERT ON chaos.gift TO {owner};
GRANT USAGE ON SEQUENCE chaos.effect_seq_seq, chaos.gift_seq_seq TO {owner};
"""
TRIGGERS = """
CREATE FUNCTION chaos.keep_version() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
DECLARE
    job pgjobs_job := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO chaos.version
    SELECT nextval('chaos.version_seq'), pg_current_xact_id(), TG_OP,
        current_setting('application_name'), statement_timestamp(), clock_timestamp(),
        round(extract(epoch FROM chaos.now() - clock_timestamp())), job.id, {columns};
    RETURN NULL;
END
$$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE OR DELETE ON pgjobs_job
    FOR EACH ROW EXECUTE FUNCTION chaos.keep_version();

CREATE FUNCTION chaos.keep_worker() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
DECLARE
    worker pgjobs_worker := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    INSERT INTO chaos.worker (operation, id, name, pid, slots, queues)
    VALUES (
        TG_OP, worker.id, worker.name, worker.pid, worker.slots, worker.queues
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER zz_chaos AFTER INSERT OR DELETE ON pgjobs_worker
    FOR EACH ROW EXECUTE FUNCTION chaos.keep_worker();

CREATE FUNCTION chaos.keep_pause() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
    INSERT INTO chaos.pause (name, is_paused)
    VALUES (NEW.name, NEW.paused_at IS NOT NULL);
    RETURN NULL;
END
$$;
CREATE TRIGGER zz_chaos AFTER INSERT OR UPDATE OF paused_at ON pgjobs_queue
    FOR EACH ROW EXECUTE FUNCTION chaos.keep_pause();

CREATE FUNCTION chaos.keep_move() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
    INSERT INTO chaos.move (schedule, every, overlap, old_next, new_next)
    VALUES (
        NEW.name, extract(epoch FROM NEW.every), NEW.overlap,
        OLD.next_run_at, NEW.next_run_at
    );
    RETURN NULL;
END
$$;
CREATE TRIGGER zz_chaos AFTER UPDATE OF next_run_at ON pgjobs_schedule
    FOR EACH ROW WHEN (OLD.next_run_at <> NEW.next_run_at)
    EXECUTE FUNCTION chaos.keep_move();
"""
# `moment`: the same for all that one transaction wrote. Times as seconds since 1970.
VERSIONS = f"""
SELECT job_id, status, seq, max(seq) OVER (PARTITION BY transaction) AS moment,
    transaction::text::bigint AS transaction, operation, actor,
    drift + extract(epoch FROM began_at)::float8 AS began_at,
    drift + extract(epoch FROM at)::float8 AS at,
    -- The clock may have been set back between the two.
    drift + extract(epoch FROM greatest(at, pg_xact_commit_timestamp(xmin)))::float8
        AS committed_at,
    drift + attempted_at AS attempted_at,
    {", ".join(name for name in COLUMNS if name not in ("status", "attempted_at"))}
FROM chaos.version ORDER BY moment, seq
"""
EFFECTS = """
SELECT job_id, life, attempt, what, extract(epoch FROM at)::float8 AS at
FROM chaos.effect ORDER BY seq
"""
GIFTS = """
SELECT mark, value, extract(epoch FROM at)::float8 AS at FROM chaos.gift ORDER BY seq
"""
WORKERS = """
SELECT operation, id, name, pid, slots, queues, extract(epoch FROM at)::float8 AS at
FROM chaos.worker ORDER BY seq
"""
PAUSES = """
SELECT name, is_paused, extract(epoch FROM at)::float8 AS at
FROM chaos.pause ORDER BY seq
"""
TICKS = """
SELECT schedule.name AS schedule, schedule.task,
    extract(epoch FROM tick.time)::float8 AS time, tick.job_id,
    extract(epoch FROM schedule.every)::float8 AS every,
    extract(epoch FROM schedule.next_run_at)::float8 AS next_run_at,
    schedule.overlap
FROM pgjobs_tick AS tick JOIN pgjobs_schedule AS schedule ON schedule.id = schedule_id
ORDER BY schedule.name, tick.time
"""
MOVES = """
SELECT schedule, every, overlap, extract(epoch FROM old_next)::float8 AS begin,
    extract(epoch FROM new_next)::float8 AS end
FROM chaos.move ORDER BY seq
"""
DELIVERIES = """
SELECT event.id AS event_id, event.payload ->> 'mark' AS mark, delivery.task,
    delivery.job_id
FROM pgjobs_event AS event LEFT JOIN pgjobs_delivery AS delivery
    ON delivery.event_id = event.id
WHERE event.name LIKE 'chaos.%'
ORDER BY event.id, delivery.task
"""


def install(connection: psycopg.Connection) -> None:
    """Make the tables and triggers that keep everything."""
    named = ", ".join(f"{code} AS {name}" for name, code in COLUMNS.items())
    connection.execute(
        TABLES.format(columns=named, started_at=started_at(), owner=OWNER)
    )
    connection.execute(TRIGGERS.format(columns=", ".join(COLUMNS.values())))


def rows(connection: psycopg.Connection, query: str) -> list[Any]:
    """Return the rows of a query with their columns as attributes."""
    return connection.cursor(row_factory=namedtuple_row).execute(query).fetchall()
