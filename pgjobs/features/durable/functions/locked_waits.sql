-- Lock the rows of a wait, but for those that another transaction holds; return their ids.
CREATE OR REPLACE FUNCTION pgjobs_locked_waits(job bigint, of_life integer, wait_name text)
RETURNS bigint[] LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN ARRAY(
        SELECT id FROM pgjobs_wait
        WHERE job_id = job AND life = of_life AND name = wait_name
        ORDER BY id
        FOR UPDATE SKIP LOCKED
    );
END
$$;
