-- Wake the workers after each INSERT, also by psql, once per queue and statement.
-- Queues with jobs for an admission are named on another channel. Scheduled jobs wake
-- the workers too, because a worker sleeps only until the next job is due. The mode
-- "manual" sets pgjobs.notifies.
CREATE OR REPLACE FUNCTION pgjobs_notify_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        CASE WHEN waits THEN 'pgjobs_admission' ELSE 'pgjobs' END, queue.name
    )
    FROM (
        SELECT DISTINCT line IS NOT NULL, queue_name FROM inserted
    ) AS queue (waits, name)
    WHERE pg_catalog.current_setting('pgjobs.notifies', true) IS DISTINCT FROM 'off';
    RETURN NULL;
END
$$;
