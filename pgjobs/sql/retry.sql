-- Operator's retry: finished jobs return to the queue with a new life.
-- The lease token stays: it is never used twice. Who retries a job wants it to run,
-- however late.
WITH finished AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
        AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
    ORDER BY id
    FOR NO KEY UPDATE
),
revived AS (
    UPDATE pgjobs_job AS job
    SET status = CASE
            WHEN run_after > clock_timestamp() THEN 'SCHEDULED' ELSE 'READY'
        END,
        life = life + 1,
        attempts = 0, failures = 0, crashes = 0,
        started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
        expires_at = NULL, cancel_requested_at = NULL, return_value = NULL, reason = ''
    FROM finished
    WHERE job.id = finished.id
    RETURNING job.id
),
forgotten AS (
    DELETE FROM pgjobs_progress USING revived WHERE job_id = revived.id
)
SELECT id, false FROM revived
