-- Return the status of a job, or NULL if there is no such job.
CREATE OR REPLACE FUNCTION pgjobs_job_status(id bigint) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN status FROM pgjobs_job AS job WHERE job.id = pgjobs_job_status.id;
END
$$;
