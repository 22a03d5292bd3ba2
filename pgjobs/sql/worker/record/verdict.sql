-- Verdicts: FAIL and RETRY count a failure; SNOOZE, RELEASE, UNKNOWN and CANCEL do not.
-- UNKNOWN fails once workers have put the job back for long, however old it is: it may have
-- been due only now, or have waited.
outcome AS (
    SELECT * FROM jsonb_to_recordset(%(outcomes)s::jsonb) AS outcome (
        id bigint, lease_token bigint, verdict text, delay float8, reason text,
        exception_class text, message text, traceback text, dependencies jsonb,
        error_group bigint, place text, pattern text, has_begun boolean
    )
),
held AS MATERIALIZED (
    SELECT job.life, job.attempts, job.last_attempted_at, job.task, outcome.*,
        job.keys ? 'rate_key' AS has_rate,
        (outcome.verdict IN ('FAIL', 'RETRY'))::int AS failed, put_back_since,
        CASE
            WHEN job.cancel_requested_at IS NOT NULL OR outcome.verdict = 'CANCEL'
                THEN 'CANCELLED'
            WHEN outcome.verdict = 'FAIL' THEN 'FAILED'
            WHEN outcome.verdict = 'RETRY' AND job.failures >= job.max_attempts - 1
                THEN 'FAILED'
            WHEN put_back_since <= to_char(
                clock_timestamp() AT TIME ZONE 'UTC'
                    - make_interval(secs => %(unknown_task_grace)s),
                'YYYY-MM-DD HH24:MI:SS'
            )
                THEN 'FAILED'
            WHEN outcome.delay > 0 THEN 'SCHEDULED'
            ELSE 'READY'
        END AS next_status
    FROM outcome
    JOIN pgjobs_job AS job
        ON job.id = outcome.id AND job.lease_token = outcome.lease_token
    CROSS JOIN LATERAL (
        SELECT CASE outcome.verdict
            WHEN 'UNKNOWN' THEN pgjobs_put_back_since(job.reason)
        END AS put_back_since
    ) AS unknown
    WHERE job.worker_id = %(worker_id)s
        -- Otherwise a plan made while the table was small walks the whole primary key.
        AND job.id = ANY (ARRAY(SELECT id FROM outcome))
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
