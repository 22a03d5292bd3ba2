-- Store that a step is done, if the job still has this token.
-- Another worker may have done the step meanwhile. Then the result of that worker
-- stands.
-- KEY SHARE: this waits for a transaction that deletes the job, and does not block
-- acts.
WITH held AS MATERIALIZED (
    SELECT id, life, attempts FROM pgjobs_job
    WHERE id = %(job_id)s
        AND lease_token = %(lease_token)s
        AND worker_id IS NOT NULL
    FOR KEY SHARE
),
written AS (
    INSERT INTO pgjobs_step (job_id, life, name, return_value, attempt, finished_at)
    SELECT id, life, %(name)s, %(return_value)s::jsonb, attempts, clock_timestamp()
    FROM held
    ON CONFLICT (job_id, life, name) DO NOTHING
    RETURNING id
)
SELECT EXISTS (SELECT FROM held), EXISTS (SELECT FROM written)
