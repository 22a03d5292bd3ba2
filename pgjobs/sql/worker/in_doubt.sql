-- The present status of jobs whose outcomes could not be recorded.
-- A job with our token and without an owner was recorded by us before the connection
-- broke.
SELECT lease_token, status FROM pgjobs_job
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id IS NULL
