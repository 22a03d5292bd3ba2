-- Record the success of an atomic task, and commit it with all that the task did, in
-- one round trip. An error prevents the COMMIT. Cancel wins, because everything can be
-- rolled back. The token is the guard: a row with it and with an owner is ours. The
-- mark was set at the beginning of the transaction. Without it the task has ended the
-- transaction. In place of the comment stands what pruning looks for: see
-- features/keeping/successes.py.
WITH completed AS (
    UPDATE pgjobs_job AS job
    SET status = 'SUCCESSFUL',
        finished_at = clock_timestamp(),
        return_value = %(return_value)s::jsonb,
        reason = '', /*keep*/
        worker_id = NULL,
        worker_name = (SELECT name FROM pgjobs_worker WHERE id = job.worker_id)
    WHERE id = %(id)s
        AND lease_token = %(lease_token)s
        AND worker_id IS NOT NULL
        AND cancel_requested_at IS NULL
    RETURNING job.id
)
SELECT CASE
    WHEN current_setting('pgjobs.lease_token', true)
        IS DISTINCT FROM %(lease_token)s::text
        THEN pgjobs_refuse(%(ended)s)
    WHEN NOT EXISTS (SELECT FROM completed) THEN pgjobs_refuse(%(overtaken)s)
END;
COMMIT
