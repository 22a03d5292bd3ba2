-- Carry out the decisions about jobs that wait for dependencies. Their rows are locked.
-- A job fails, or waits for the given jobs, or has all that it needs. The next
-- admission looks at the links and at other obstacles.
WITH decision AS (
    SELECT * FROM jsonb_to_recordset(%(decisions)s::jsonb) AS decision (
        id bigint, dependencies jsonb, jobs bigint[], reason text
    )
),
linked AS (
    INSERT INTO pgjobs_predecessor (job_id, predecessor_id, needs)
    SELECT id, unnest(jobs), 'dependency' FROM decision
    ON CONFLICT (job_id, predecessor_id) DO UPDATE
        SET needs = excluded.needs, is_open = true
)
UPDATE pgjobs_job AS job
SET status = CASE
        WHEN decision.reason IS NOT NULL THEN 'FAILED' ELSE 'WAITING'
    END,
    waiting_for = CASE WHEN decision.reason IS NULL THEN 'dependency' END,
    blocked_by_id = decision.jobs[1],
    line = CASE WHEN decision.reason IS NULL THEN 'unlinked' END,
    dependencies = coalesce(decision.dependencies, job.dependencies),
    finished_at = CASE
        WHEN decision.reason IS NOT NULL THEN clock_timestamp()
    END,
    reason = coalesce(decision.reason, job.reason)
FROM decision
WHERE job.id = decision.id
    -- Otherwise a plan made for a small table walks over all jobs.
    AND job.id = ANY (ARRAY(SELECT id FROM decision))
RETURNING job.id, job.task, job.queue_name, job.status, job.reason
