-- Wake the workers after any INSERT, also one by psql: once per queue and statement. A
-- queue with jobs that an admission has to look at is named on a channel of its own.
-- Scheduled jobs wake the workers too, because a worker sleeps no longer than until the
-- next job is due.
CREATE OR REPLACE FUNCTION pgjobs_notify_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        CASE WHEN waits THEN 'pgjobs_admission' ELSE 'pgjobs' END, queue.name
    )
    FROM (
        SELECT DISTINCT line IS NOT NULL, queue_name FROM inserted
    ) AS queue (waits, name);
    RETURN NULL;
END
$$;
