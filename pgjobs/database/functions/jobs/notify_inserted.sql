-- Wake the workers after each INSERT, also by psql, once per queue and statement.
-- Queues with jobs for an admission are named on another channel. Scheduled jobs wake
-- the workers too, because a worker sleeps only until the next job is due. The mode
-- "manual" sets pgjobs.notifies.
--
-- While commits wait for one another because they notify, workers poll the queue by
-- themselves, and a READY job of a queue whose workers all do so need not notify. Locks
-- say which workers do: docs/notifications.md proves that no worker sleeps beside a job.
-- The order of the questions matters, and a CASE keeps it. What is locked and at once
-- unlocked was only asked for.
CREATE OR REPLACE FUNCTION pgjobs_notify_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.pg_notify(
        CASE WHEN waits THEN 'pgjobs_admission' ELSE 'pgjobs' END, queue.name
    )
    FROM (
        SELECT DISTINCT line IS NOT NULL, status = 'READY', queue_name FROM inserted
    ) AS queue (waits, is_ready, name)
    WHERE pg_catalog.current_setting('pgjobs.notifies', true) IS DISTINCT FROM 'off'
        AND CASE
            WHEN NOT is_ready THEN true
            -- No worker polls ("pgjl" in ASCII).
            WHEN pg_catalog.pg_try_advisory_lock(1885825644, 0)
                THEN pg_catalog.pg_advisory_unlock(1885825644, 0)
            -- From here on, until its end, the transaction may be silent ("pgjm").
            WHEN NOT pg_catalog.pg_try_advisory_xact_lock_shared(1885825645, 0)
                THEN true
            -- A worker of all queues, or of this one, is to be notified ("pgjn").
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext('')
            )
                THEN true
            WHEN NOT pg_catalog.pg_try_advisory_lock(
                1885825646, pg_catalog.hashtext(name)
            )
                THEN true
            ELSE NOT pg_catalog.pg_advisory_unlock(
                1885825646, pg_catalog.hashtext(name)
            )
        END;
    RETURN NULL;
END
$$;
