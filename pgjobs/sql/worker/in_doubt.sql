-- The present status of jobs whose outcomes could not be recorded.
-- A job with our token and without an owner was recorded by us before the connection
-- broke. One that goes on as another job has not ended: see continue_as.sql.
SELECT lease_token, CASE WHEN keys ? 'continued_as' THEN 'CONTINUED' ELSE status END
FROM pgjobs_job
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id IS NULL
