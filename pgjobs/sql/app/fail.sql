-- Operator's fail. A running job gets a new token: its old owner is fenced.
WITH unfinished AS MATERIALIZED (
    SELECT id, life, attempts, last_attempted_at, worker_id, status = 'RUNNING' AS ran
    FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
        AND status IN ('READY', 'SCHEDULED', 'WAITING', 'RUNNING')
    ORDER BY id
    FOR NO KEY UPDATE
),
failed AS (
    UPDATE pgjobs_job AS job
    SET status = 'FAILED',
        finished_at = clock_timestamp(),
        reason = %(reason)s,
        lease_token = CASE
            WHEN status = 'RUNNING' THEN nextval('pgjobs_lease_token') ELSE lease_token
        END,
        worker_id = NULL,
        waiting_for = NULL,
        blocked_by_id = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM unfinished))
    RETURNING job.id
),
stored_attempt AS (
    INSERT INTO pgjobs_attempt
        (job_id, life, number, worker_name, started_at, finished_at, outcome, message)
    SELECT unfinished.id, life, attempts,
        coalesce(worker.name, format('worker %%s', worker_id)),
        last_attempted_at, clock_timestamp(), 'FAILED', %(reason)s
    FROM unfinished LEFT JOIN pgjobs_worker AS worker ON worker.id = worker_id
    WHERE ran
    ON CONFLICT (job_id, life, number) DO NOTHING
)
SELECT id, true FROM failed
