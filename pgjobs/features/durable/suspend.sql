-- Suspend jobs that sleep or wait. A sleep is its step, which ends when the job is due. A
-- wait has rows, and a note of the job: a worker that takes it looks for what may have
-- come before this was committed. To suspend shows progress, so failures and crashes
-- start from 0 again. There is no row of the attempt, unless the job was to be cancelled.
WITH outcome AS (
    SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (
        id bigint, lease_token bigint, reason text, stores jsonb
    )
),
held AS MATERIALIZED (
    SELECT job.life, job.attempts, job.last_attempted_at, outcome.*,
        outcome.stores ->> 'name' AS name,
        job.cancel_requested_at IS NOT NULL AS is_cancelled,
        job.reason AS reason_to_cancel,
        coalesce(
            (outcome.stores ->> 'until')::timestamptz,
            clock_timestamp()
                + make_interval(secs => (outcome.stores -> 'seconds')::float8)
        ) AS ends_at
    FROM outcome
    JOIN pgjobs_job AS job
        ON job.id = outcome.id AND job.lease_token = outcome.lease_token
    WHERE job.worker_id = %(worker_id)s
        AND job.id = ANY (ARRAY(SELECT id FROM outcome))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
slept AS (
    INSERT INTO pgjobs_step (job_id, life, name, attempt, finished_at)
    SELECT id, life, name, attempts, ends_at FROM held
    WHERE NOT stores ? 'ways' AND NOT is_cancelled
    ON CONFLICT (job_id, life, name) DO NOTHING
),
attempt AS (
    INSERT INTO pgjobs_attempt
        (job_id, life, number, worker_name, started_at, finished_at, outcome, message)
    SELECT id, life, attempts, %(worker_name)s, last_attempted_at, clock_timestamp(),
        'CANCELLED', reason_to_cancel
    FROM held WHERE is_cancelled
    ON CONFLICT (job_id, life, number) DO NOTHING
),
recorded AS (
    UPDATE pgjobs_job AS job
    SET worker_id = NULL,
        keys = CASE
            WHEN job.keys ?| ARRAY['rate_key', 'rate_aside']
                THEN pgjobs_rate_aside(job.keys, job.attempts)
            ELSE job.keys
        END,
        (
            status, waiting_for, run_after, finished_at, failures, crashes, reason, meta
        ) = (
            SELECT
                CASE
                    WHEN is_cancelled THEN 'CANCELLED'
                    WHEN stores ? 'ways' THEN 'WAITING'
                    ELSE 'SCHEDULED'
                END,
                CASE WHEN NOT is_cancelled THEN stores ->> 'waiting_for' END,
                CASE
                    WHEN is_cancelled OR stores ? 'ways' THEN job.run_after
                    ELSE held.ends_at
                END,
                CASE WHEN is_cancelled THEN clock_timestamp() END,
                0, 0,
                CASE WHEN is_cancelled THEN job.reason ELSE held.reason END,
                CASE
                    WHEN stores ? 'meta' THEN coalesce(job.meta, '{}') || (stores -> 'meta')
                    ELSE job.meta
                END
            FROM held WHERE held.id = job.id
        )
    WHERE id = ANY (ARRAY(SELECT id FROM held))
    RETURNING job.lease_token, job.status
),
-- Last: it marks the jobs that are waited for, and this statement may suspend them, too.
waiting AS MATERIALIZED (
    SELECT pgjobs_open_waits(
        array_agg(id), array_agg(life), array_agg(name), array_agg(stores -> 'ways'),
        array_agg(ends_at), %(worker_id)s
    )
    FROM held
    WHERE (SELECT count(*) FROM recorded) > 0 AND stores ? 'ways' AND NOT is_cancelled
)
SELECT lease_token, status FROM recorded WHERE (SELECT count(*) FROM waiting) >= 0
