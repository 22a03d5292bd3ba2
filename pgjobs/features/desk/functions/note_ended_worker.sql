-- Remember a worker whose row is deleted, and how it ended: leave.sql says it. One of which
-- nobody says it was lost. What runs jobs in the caller's process is no worker.
CREATE OR REPLACE FUNCTION pgjobs_note_ended_worker() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    given text := nullif(current_setting('pgjobs.ends', true), '');
BEGIN
    IF given = 'caller' THEN
        RETURN NULL;
    END IF;
    INSERT INTO pgjobs_endedworker
        (worker_id, name, host, pid, queues, excluded, version, started_at, how)
    VALUES
        (OLD.id, OLD.name, OLD.host, OLD.pid, OLD.queues, OLD.excluded, OLD.version,
         OLD.started_at, coalesce(given, 'lost'));
    RETURN NULL;
EXCEPTION WHEN insufficient_privilege THEN
    -- A role of an older version: rescues matter more.
    RETURN NULL;
END
$$;
