-- Cancel queued jobs. Ask running ones to stop, once each, and notify their workers.
-- Rows are locked by id, as in all statements that touch several jobs, so that two of
-- them never wait for each other.
WITH unfinished AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
        AND (
            status IN ('READY', 'SCHEDULED', 'WAITING')
            OR (status = 'RUNNING' AND cancel_requested_at IS NULL)
        )
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE pgjobs_job AS job
SET status = CASE WHEN status = 'RUNNING' THEN status ELSE 'CANCELLED' END,
    finished_at = CASE WHEN status = 'RUNNING' THEN NULL ELSE clock_timestamp() END,
    cancel_requested_at = CASE WHEN status = 'RUNNING' THEN clock_timestamp() END,
    reason = %(reason)s,
    waiting_for = NULL,
    blocked_by_id = NULL
FROM unfinished
WHERE job.id = unfinished.id
RETURNING job.id, job.status = 'CANCELLED',
    CASE WHEN job.worker_id IS NOT NULL
        THEN pg_notify('pgjobs_worker_' || job.worker_id, 'cancel')
    END
