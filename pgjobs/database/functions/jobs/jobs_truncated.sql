-- Delete the rows that belong to the jobs of a TRUNCATE.
CREATE OR REPLACE FUNCTION pgjobs_jobs_truncated() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM pgjobs_attempt;
    DELETE FROM pgjobs_progress;
    DELETE FROM pgjobs_step;
    DELETE FROM pgjobs_tick WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_delivery WHERE job_id IS NOT NULL;
    DELETE FROM pgjobs_predecessor;
    DELETE FROM pgjobs_batch;
    DELETE FROM pgjobs_note;
    DELETE FROM pgjobs_prerequisite;
    RETURN NULL;
END
$$;
