-- Cancel queued jobs, ask running ones to stop, and notify their workers. Return the
-- jobs that this changed. Each statement that touches several jobs locks their rows in
-- the order of the ids, so that two of them never wait for each other.
--
-- A job that goes on as another one leads to the newest (see continue_as), also one that
-- did so while this waited for its row. Nobody looks for it where all jobs were changed.
--
-- The array keeps the planner from a join with all jobs: where it expects few of these
-- rows, it would read them again for each job.
CREATE OR REPLACE FUNCTION pgjobs_cancel_jobs(ids bigint[], why text)
RETURNS TABLE (id bigint, is_finished boolean) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number bigint;
BEGIN
    LOOP
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
            WHERE job.id = ANY (ARRAY(SELECT unfinished.id FROM unfinished))
            RETURNING job.id, job.worker_id
        )
        SELECT cancelled.id, cancelled.worker_id IS NULL
        FROM cancelled
        LEFT JOIN LATERAL (
            SELECT pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel')
            WHERE cancelled.worker_id IS NOT NULL
        ) AS notified ON true;
        GET DIAGNOSTICS number = ROW_COUNT;
        EXIT WHEN number = cardinality(ids);
        ids := ARRAY(
            SELECT DISTINCT newest
            FROM unnest(ids) AS given (old)
            CROSS JOIN LATERAL pgjobs_newest(old) AS newest
            WHERE newest <> old
        );
        EXIT WHEN ids = '{}';
    END LOOP;
END
$$;
