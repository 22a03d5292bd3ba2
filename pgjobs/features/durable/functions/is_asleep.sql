-- Return whether a job is due because a sleep of this life ends then.
CREATE OR REPLACE FUNCTION pgjobs_is_asleep(
    job bigint, of_life integer, due_at timestamptz
) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_step
        WHERE job_id = job AND life = of_life AND finished_at = due_at
    );
END
$$;
