-- Cancel a batch of the jobs that were not started in time.
-- A job that had an attempt does not expire.
-- statement_timestamp: it does not change meanwhile, so the index can be used.
WITH late AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE expires_at <= statement_timestamp() AND attempts = 0 AND finished_at IS NULL
        AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY expires_at
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgjobs_job
SET status = 'CANCELLED',
    finished_at = clock_timestamp(),
    reason = 'Expired: not started in time.',
    waiting_for = NULL,
    blocked_by_id = NULL
WHERE id = ANY (ARRAY(SELECT id FROM late))
RETURNING id
