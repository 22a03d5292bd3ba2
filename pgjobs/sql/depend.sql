-- Carry out what was decided about jobs that wait for dependencies, whose rows are
-- locked: they wait for those jobs, or fail, or have all they need (and are looked at
-- again, as all that shall be READY).
WITH decision AS (
    SELECT * FROM jsonb_to_recordset(%(decisions)s::jsonb) AS decision (
        id bigint, dependencies jsonb, jobs bigint[], reason text
    )
),
told AS (
    INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
    SELECT id, unnest(jobs), 'dependency' FROM decision
    ON CONFLICT (job_id, predecessor_id) DO UPDATE
        SET needs = excluded.needs, is_open = true
),
settled AS (
    DELETE FROM pgjobs_unsettled
    WHERE kind = 'dependency' AND key = ANY (ARRAY(SELECT id::text FROM decision))
)
UPDATE pgjobs_job AS job
SET status = CASE
        WHEN decision.reason IS NOT NULL THEN 'FAILED'
        WHEN decision.jobs = '{}' THEN 'READY'
        ELSE 'WAITING'
    END,
    waiting_for = CASE
        WHEN decision.reason IS NULL AND decision.jobs <> '{}' THEN 'dependency'
    END,
    blocked_by_id = decision.jobs[1],
    -- Jobs without keys are not looked at when a transaction commits.
    keys = CASE WHEN decision.jobs = '{}' THEN keys ELSE coalesce(keys, '{}') END,
    dependencies = coalesce(decision.dependencies, job.dependencies),
    finished_at = CASE
        WHEN decision.reason IS NOT NULL THEN clock_timestamp()
    END,
    reason = coalesce(decision.reason, job.reason)
FROM decision
WHERE job.id = decision.id
RETURNING job.id, job.task, job.queue_name, job.status, job.reason
