-- Operator's retry: finished jobs return to the queue with a new life. See the function.
SELECT id, false FROM pgjobs_retry_jobs(%(ids)s::bigint[]) AS id
