-- Cancel queued jobs, ask running ones to stop, and notify their workers. Return the
-- jobs that this changed. Each statement that touches several jobs locks their rows in
-- the order of the ids, so that two of them never wait for each other.
CREATE OR REPLACE FUNCTION pgjobs_cancel_jobs(ids bigint[], why text)
RETURNS TABLE (id bigint, is_finished boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN QUERY
    WITH unfinished AS MATERIALIZED (
        SELECT job.id FROM pgjobs_job AS job
        WHERE job.id = ANY (ids)
            AND (
                job.status IN ('READY', 'SCHEDULED', 'WAITING')
                OR job.status = 'RUNNING' AND job.cancel_requested_at IS NULL
            )
        ORDER BY job.id
        FOR NO KEY UPDATE
    ),
    cancelled AS (
        UPDATE pgjobs_job AS job
        SET status = CASE
                WHEN job.status = 'RUNNING' THEN job.status ELSE 'CANCELLED'
            END,
            finished_at = CASE
                WHEN job.status <> 'RUNNING' THEN clock_timestamp()
            END,
            cancel_requested_at = CASE
                WHEN job.status = 'RUNNING' THEN clock_timestamp()
            END,
            reason = coalesce(nullif(left(why, 1000), ''), 'Cancelled.'),
            waiting_for = NULL,
            blocked_by_id = NULL
        FROM unfinished
        WHERE job.id = unfinished.id
        RETURNING job.id, job.worker_id
    )
    SELECT cancelled.id, cancelled.worker_id IS NULL
    FROM cancelled
    LEFT JOIN LATERAL (
        SELECT pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel')
        WHERE cancelled.worker_id IS NOT NULL
    ) AS notified ON true;
END
$$;
