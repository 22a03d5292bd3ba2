-- Record that the process of an isolated job has died: a crash of this job alone. The
-- backoff of the task says when it is tried again.
WITH outcome AS (
    SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (
        id bigint, lease_token bigint, reason text, message text, delay float8
    )
),
held AS MATERIALIZED (
    SELECT job.life, job.attempts, job.last_attempted_at, job.max_crashes, outcome.*,
        least(job.crashes + 1, job.attempts, 32767) AS crashes,
        CASE
            WHEN job.cancel_requested_at IS NOT NULL THEN 'CANCELLED'
            WHEN job.crashes + 1 >= job.max_crashes THEN 'FAILED'
            WHEN outcome.delay > 0 THEN 'SCHEDULED'
            ELSE 'READY'
        END AS next_status
    FROM outcome
    JOIN pgjobs_job AS job
        ON job.id = outcome.id AND job.lease_token = outcome.lease_token
    WHERE job.worker_id = %(worker_id)s
        AND job.id = ANY (ARRAY(SELECT id FROM outcome))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
stored_attempt AS (
    INSERT INTO pgjobs_attempt
        (job_id, life, number, worker_name, started_at, finished_at, outcome, message)
    SELECT id, life, attempts, %(worker_name)s, last_attempted_at, clock_timestamp(),
        'CRASHED', message
    FROM held
    ON CONFLICT (job_id, life, number) DO NOTHING
),
recorded AS (
    UPDATE pgjobs_job AS job
    SET worker_id = NULL,
        (status, crashes, run_after, finished_at, reason) = (
            SELECT held.next_status, held.crashes,
                \ir ../../sql/worker/record/times.sql
                CASE
                    WHEN job.cancel_requested_at IS NOT NULL THEN job.reason
                    ELSE format(
                        '%%s (crash %%s of %%s).', held.reason, held.crashes,
                        held.max_crashes
                    )
                END
            FROM held WHERE held.id = job.id
        )
    WHERE id = ANY (ARRAY(SELECT id FROM held))
    RETURNING job.lease_token, job.status
)
SELECT lease_token, status FROM recorded
