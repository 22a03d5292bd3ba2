-- Cancel a job, or ask the worker that runs it to stop it. One that goes on as another job
-- leads to the newest.
CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    cancelled CONSTANT bigint := (
        SELECT done.id FROM pgjobs_cancel_jobs(ARRAY[pgjobs_cancel.id], reason) AS done
    );
BEGIN
    IF cancelled IS NULL THEN
        RETURN false;
    END IF;
    PERFORM pgjobs_audit_act('cancel', cancelled, reason);
    RETURN true;
END
$$;
