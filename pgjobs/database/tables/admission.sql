-- These indexes find the jobs that hold a lock or a place of a limit, and the first of
-- those that do not hold their ordered lock yet. PostgreSQL tests their conditions with
-- each statement. So they are short, and begin with a test that a plain job fails.

-- The last line of defence: whatever goes wrong, no two jobs of a lock can run.
CREATE UNIQUE INDEX pgjobs_job_lock ON pgjobs_job ((keys ->> 'lock'))
    WHERE (keys ->> 'lock') IS NOT NULL AND status IN ('READY', 'RUNNING');
CREATE INDEX pgjobs_job_lock_order ON pgjobs_job ((keys ->> 'lock'), id)
    WHERE (keys ->> 'lock') IS NOT NULL AND status IN ('WAITING', 'SCHEDULED')
        AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false';
CREATE INDEX pgjobs_job_limit ON pgjobs_job ((keys ->> 'limit_key'))
    WHERE (keys ->> 'limit_key') IS NOT NULL AND status IN ('READY', 'RUNNING');

-- A job about which an admission decides, with the first obstacle that it meets, if
-- any. Functions take and return it, so a change needs a type with a new name.
CREATE TYPE pgjobs_candidate AS (
    id bigint, queue_name text, priority integer, turn bigint, line text,
    lock text, is_ordered boolean, limit_key text, max_running integer,
    rate_key text, rate_interval double precision, rate_burst integer,
    obstacle text, blocker bigint
);

-- The values that admissions and pruning read as numbers and times. A rate opens at
-- most a hundred years before it is full.
ALTER TABLE pgjobs_note ADD CONSTRAINT pgjobs_note_keys CHECK (
    keys ->> 'batch_id' ~ '^[0-9]{1,18}$'
    AND (
        keys ->> 'rate_burst' ~ '^[0-9]{1,9}$'
        OR keys ->> 'rate_burst' ~ '^[0-9]{10}$'
        AND keys ->> 'rate_burst' <= '2147483647'
    )
    AND pg_column_size(keys) <= 200000
);
ALTER TABLE pgjobs_rate ADD CONSTRAINT pgjobs_rate_times CHECK (
    full_at BETWEEN '1970-01-01 00:00+00' AND '9999-01-01 00:00+00'
    AND opens_at BETWEEN '1800-01-01 00:00+00' AND '9999-01-01 00:00+00'
);
ALTER TABLE pgjobs_batch ADD CONSTRAINT pgjobs_batch_time CHECK (
    enqueued_at BETWEEN '1970-01-01 00:00+00' AND '9999-01-01 00:00+00'
);
ALTER TABLE pgjobs_prerequisite ADD CONSTRAINT pgjobs_prerequisite_times CHECK (
    least(finished_at, needed_until) >= '1970-01-01 00:00+00'
    AND greatest(finished_at, needed_until) < '9999-01-01 00:00+00'
);
