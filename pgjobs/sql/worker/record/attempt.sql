stored_attempt AS (
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
