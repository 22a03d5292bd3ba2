-- Record attempts that did not succeed, and decide what becomes of their jobs.
-- Verdicts: FAIL and RETRY count a failure; SNOOZE, RELEASE, UNKNOWN and CANCEL do not.
-- With `dependencies`, which an INSERT by SQL lacks, the job may have to wait for them.
WITH outcome AS (
    SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (
        id bigint, lease_token bigint, verdict text, delay float8, reason text,
        exception_class text, message text, traceback text, dependencies jsonb,
        error_group bigint, place text, pattern text
    )
),
held AS MATERIALIZED (
    SELECT job.life, job.attempts, job.last_attempted_at, job.task, outcome.*,
        (outcome.verdict IN ('FAIL', 'RETRY'))::int AS failed,
        CASE
            WHEN job.cancel_requested_at IS NOT NULL OR outcome.verdict = 'CANCEL'
                THEN 'CANCELLED'
            WHEN outcome.verdict = 'FAIL' THEN 'FAILED'
            WHEN outcome.verdict = 'RETRY' AND job.failures >= job.max_attempts - 1
                THEN 'FAILED'
            WHEN outcome.verdict = 'UNKNOWN' AND clock_timestamp()
                >= job.enqueued_at + make_interval(secs => %(unknown_task_grace)s)
                THEN 'FAILED'
            WHEN outcome.delay > 0 THEN 'SCHEDULED'
            ELSE 'READY'
        END AS next_status
    FROM outcome
    JOIN pgjobs_job AS job
        ON job.id = outcome.id AND job.lease_token = outcome.lease_token
    WHERE job.worker_id = %(worker_id)s
        -- Otherwise a plan made while the table was small walks the whole primary key.
        AND job.id = ANY (ARRAY(SELECT id FROM outcome))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
recorded AS (
    UPDATE pgjobs_job AS job
    SET status = held.next_status,
        failures = least(failures::bigint + held.failed, job.attempts),
        run_after = CASE
            WHEN held.next_status = 'SCHEDULED'
                THEN clock_timestamp() + make_interval(secs => held.delay)
            ELSE run_after
        END,
        finished_at = CASE
            WHEN held.next_status IN ('FAILED', 'CANCELLED') THEN clock_timestamp()
        END,
        reason = CASE
            WHEN job.cancel_requested_at IS NULL THEN held.reason ELSE job.reason
        END,
        dependencies = coalesce(held.dependencies, job.dependencies),
        error_group = CASE
            WHEN held.next_status = 'FAILED' THEN held.error_group
        END,
        worker_id = NULL
    FROM held
    WHERE job.id = held.id
    RETURNING job.id, job.lease_token, job.status
),
noted AS (
    INSERT INTO pgjobs_attempt
        (job_id, life, number, worker_name, started_at, finished_at, outcome,
         exception_class, message, traceback)
    SELECT id, life, attempts, %(worker_name)s, last_attempted_at, clock_timestamp(),
        CASE verdict
            WHEN 'FAIL' THEN 'FAILED' WHEN 'RETRY' THEN 'FAILED'
            WHEN 'SNOOZE' THEN 'SNOOZED' WHEN 'CANCEL' THEN 'CANCELLED'
            ELSE 'RELEASED'
        END,
        exception_class, message, traceback
    FROM held
    ON CONFLICT (job_id, life, number) DO NOTHING
),
-- One row a group and version, so that many failures at once wait for no row.
grouped AS (
    INSERT INTO pgjobs_errorgroup AS known
        (id, task, exception_class, place, message, version)
    SELECT DISTINCT ON (error_group)
        error_group, task, exception_class, place, pattern, %(version)s
    FROM held
    WHERE error_group IS NOT NULL AND NOT EXISTS (
        SELECT FROM pgjobs_errorgroup
        WHERE id = held.error_group AND version = %(version)s
    )
    ORDER BY error_group
    ON CONFLICT (id) DO UPDATE SET version = excluded.version
)
SELECT lease_token, status FROM recorded
