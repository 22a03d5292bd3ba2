-- Jobs that a worker owns without knowing: it lost the answer to its own claim.
SELECT id, lease_token FROM pgjobs_job
WHERE status = 'RUNNING'
    AND worker_id = %(worker_id)s
    AND NOT lease_token = ANY (%(lease_tokens)s::bigint[])
