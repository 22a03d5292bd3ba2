-- Store what running jobs report, if they still belong to their worker.
-- An atomic job may have recorded its success already. Any other end of a job draws a
-- new token.
-- KEY SHARE: no job can be deleted meanwhile. A job whose row is held is skipped, and
-- its report is sent again.
WITH report AS (
    SELECT * FROM jsonb_to_recordset(%(reports)s::jsonb) AS report (
        id bigint, lease_token bigint, done float8, total float8, message text,
        log text
    )
),
held AS MATERIALIZED (
    SELECT job.id, report.done, report.total, report.message, report.log
    FROM report
    JOIN pgjobs_job AS job
        ON job.id = report.id AND job.lease_token = report.lease_token
    WHERE (job.worker_id = %(worker_id)s OR job.status = 'SUCCESSFUL')
        AND job.id = ANY (ARRAY(SELECT id FROM report))  -- as in record/attempt.sql
    ORDER BY job.id
    FOR KEY SHARE OF job SKIP LOCKED
)
INSERT INTO pgjobs_progress AS progress
    (job_id, done, total, message, log, updated_at)
SELECT id, done, total, coalesce(message, ''), right(log, %(longest_log)s),
    clock_timestamp()
FROM held
ON CONFLICT (job_id) DO UPDATE SET
    done = coalesce(excluded.done, progress.done),
    total = CASE WHEN excluded.done IS NULL
        THEN progress.total ELSE excluded.total END,
    message = CASE WHEN excluded.done IS NULL
        THEN progress.message ELSE excluded.message END,
    log = right(progress.log || excluded.log, %(longest_log)s),
    updated_at = excluded.updated_at
RETURNING job_id
