-- Store what was encrypted of a step that is done, if the job still has this token.
UPDATE pgjobs_step SET return_value = %(return_value)s::jsonb
WHERE job_id = %(job_id)s AND name = %(name)s AND life = (
    SELECT life FROM pgjobs_job
    WHERE id = %(job_id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
)
RETURNING id
