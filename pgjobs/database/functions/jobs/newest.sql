-- Return the job as which a job goes on now, through however many (see continue_as), or
-- the job itself. The rows between may be gone: each successor has the id of the first.
CREATE OR REPLACE FUNCTION pgjobs_newest(job bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    first jsonb;
    goes_on boolean;
BEGIN
    SELECT keys -> 'first_id', coalesce(keys ? 'continued_as', false)
    INTO first, goes_on
    FROM pgjobs_job WHERE id = job;
    IF NOT goes_on THEN
        RETURN job;
    END IF;
    RETURN coalesce(
        (
            SELECT id FROM pgjobs_job
            WHERE keys ? 'first_id'
                AND keys -> 'first_id' = coalesce(first, to_jsonb(job))
            ORDER BY id DESC LIMIT 1
        ),
        job
    );
END
$$;
