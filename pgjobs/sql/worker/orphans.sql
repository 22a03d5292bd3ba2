-- Jobs that a worker owns without knowing it, because the answer to its claim was lost.
SELECT id, lease_token FROM pgjobs_job
WHERE status = 'RUNNING'
    AND worker_id = %(worker_id)s
    AND NOT lease_token = ANY (%(lease_tokens)s::bigint[])
