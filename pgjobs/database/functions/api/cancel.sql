-- Cancel a job, or ask the worker that runs it to stop it.
CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (SELECT FROM pgjobs_cancel_jobs(ARRAY[id], reason));
END
$$;
