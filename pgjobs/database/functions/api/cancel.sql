-- Cancel a job, or ask the worker that runs it to stop it: the act of sql/cancel.sql.
CREATE OR REPLACE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    cancelled pgjobs_job;
BEGIN
    UPDATE pgjobs_job AS job
    SET status = CASE
            WHEN status = 'RUNNING' THEN status ELSE 'CANCELLED'
        END,
        finished_at = CASE WHEN status <> 'RUNNING' THEN clock_timestamp() END,
        cancel_requested_at = CASE
            WHEN status = 'RUNNING' THEN clock_timestamp()
        END,
        reason = coalesce(
            nullif(left(pgjobs_cancel.reason, 1000), ''), 'Cancelled.'
        ),
        waiting_for = NULL,
        blocked_by_id = NULL
    WHERE job.id = pgjobs_cancel.id
        AND (
            status IN ('READY', 'SCHEDULED', 'WAITING')
            OR status = 'RUNNING' AND cancel_requested_at IS NULL
        )
    RETURNING * INTO cancelled;
    IF cancelled.worker_id IS NOT NULL THEN
        PERFORM pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel');
    END IF;
    RETURN cancelled.id IS NOT NULL;
END
$$;
