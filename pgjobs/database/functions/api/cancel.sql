-- Cancel a job, or ask the worker that runs it to stop it.
CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM pgjobs_cancel_jobs(ARRAY[id], reason)) THEN
        RETURN false;
    END IF;
    PERFORM pgjobs_note_act('cancel', id, reason);
    RETURN true;
END
$$;
