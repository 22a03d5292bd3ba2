-- What became of outcomes that could not be recorded: a job that still carries our
-- token but no owner was recorded by us before the connection broke.
SELECT lease_token, status FROM pgjobs_job
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id IS NULL
