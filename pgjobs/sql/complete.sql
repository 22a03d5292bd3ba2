-- Record the success of an atomic task: the last statement of its transaction, on the
-- connection that ran the task. Cancel wins, because everything can be rolled back.
-- Guarded by the token; who has an owner and our token is ours. The mark was set as the
-- transaction began and goes with it: without it the task has ended the transaction.
WITH completed AS (
    UPDATE pgjobs_job
    SET status = 'SUCCESSFUL',
        finished_at = clock_timestamp(),
        return_value = %(return_value)s::jsonb,
        reason = '',
        worker_id = NULL
    WHERE id = %(id)s
        AND lease_token = %(lease_token)s
        AND worker_id IS NOT NULL
        AND cancel_requested_at IS NULL
    RETURNING id
)
SELECT coalesce(
        current_setting('pgjobs.lease_token', true) = %(lease_token)s::text, false
    ) AS is_in_its_transaction,
    EXISTS (SELECT FROM completed)
