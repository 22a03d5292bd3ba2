-- Operator's succeed. A running job gets a new token: its old owner is fenced.
WITH unfinished AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
        AND status IN ('READY', 'SCHEDULED', 'WAITING', 'RUNNING')
    ORDER BY id
    FOR NO KEY UPDATE
)
UPDATE pgjobs_job AS job
SET status = 'SUCCESSFUL',
    finished_at = clock_timestamp(),
    -- Of an encrypted job its own.
    return_value = coalesce(
        %(own_values)s::jsonb -> job.id::text, %(return_value)s::jsonb
    ),
    reason = '',
    lease_token = CASE
        WHEN status = 'RUNNING' THEN nextval('pgjobs_lease_token') ELSE lease_token
    END,
    worker_id = NULL,
    -- Of a job that ran: the worker that loses it.
    worker_name = (SELECT name FROM pgjobs_worker WHERE id = job.worker_id),
    -- A worker has not recorded it, so it stays.
    keep = CASE WHEN keep IS NOT NULL THEN 'all' END,
    waiting_for = NULL,
    blocked_by_id = NULL
WHERE id = ANY (ARRAY(SELECT id FROM unfinished))
RETURNING job.id, true
