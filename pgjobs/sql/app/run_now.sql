-- Make scheduled jobs due at once.
WITH scheduled AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    -- The status is compared as in worker/claim/pick.sql.
    WHERE id = ANY (%(ids)s::bigint[]) AND status || '' = 'SCHEDULED'
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE pgjobs_job AS job
SET status = 'READY', run_after = clock_timestamp()
WHERE id = ANY (ARRAY(SELECT id FROM scheduled))
RETURNING job.id, false
