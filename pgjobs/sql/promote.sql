-- Make the jobs READY whose time has come; say whether there may be more.
WITH due AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE status = 'SCHEDULED' AND run_after <= clock_timestamp()
    ORDER BY run_after, id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE pgjobs_job SET status = 'READY'
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id
)
SELECT count(*) FROM promoted
