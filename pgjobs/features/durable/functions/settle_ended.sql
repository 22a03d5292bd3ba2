-- Delete the open waits of those of these jobs that have ended, and their links: what
-- pgjobs_forget_waits left, or what ended while a worker had it. The rows of the jobs are
-- locked, so that none begins to wait meanwhile.
CREATE OR REPLACE FUNCTION pgjobs_settle_ended(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ended CONSTANT bigint[] := ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (ids) AND finished_at IS NOT NULL
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    );
BEGIN
    DELETE FROM pgjobs_wait
    WHERE id = ANY (ARRAY(
        SELECT wait.id FROM unnest(ended) AS given (id)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_wait WHERE job_id = given.id AND ended_at IS NULL
            FOR UPDATE SKIP LOCKED
        ) AS wait
    ));
    PERFORM pgjobs_drop_waited_links(ended);
END
$$;
