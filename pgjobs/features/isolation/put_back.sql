-- Put back claimed jobs for which the worker has no process. Their rows say from now on that
-- they are isolated: those of a plain INSERT did not.
WITH held AS MATERIALIZED (
    SELECT job.id, job.keys, job.last_attempted_at
    FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (id bigint, lease_token bigint)
    JOIN pgjobs_job AS job
        ON job.id = outcome.id AND job.lease_token = outcome.lease_token
    WHERE job.worker_id = %(worker_id)s
        AND job.id = ANY (ARRAY(
            SELECT id FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (id bigint)
        ))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
recorded AS (
    UPDATE pgjobs_job
    SET worker_id = NULL,
        status = CASE
            WHEN cancel_requested_at IS NULL THEN 'READY' ELSE 'CANCELLED'
        END,
        finished_at = CASE
            WHEN cancel_requested_at IS NOT NULL THEN clock_timestamp()
        END,
        keys = coalesce(keys, '{}') || '{"isolated": true}'
    WHERE id = ANY (ARRAY(SELECT id FROM held))
    RETURNING lease_token, status
),
-- They give the places of their rates back.
returned AS MATERIALIZED (
    SELECT pgjobs_leave_note(NULL, jsonb_build_object(
        'rate_key', keys -> 'rate_key',
        'rate_interval', keys -> 'rate_interval',
        'rate_returned_at', extract(epoch FROM last_attempted_at)
    ))
    FROM held WHERE keys ? 'rate_key'
)
SELECT lease_token, status FROM recorded WHERE (SELECT count(*) FROM returned) >= 0
