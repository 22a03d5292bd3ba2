-- The running jobs of other workers, to find the one on which a rescue fails.
-- The rescue itself decides which of them have lost their worker.
SELECT id FROM pgjobs_job
WHERE status = 'RUNNING' AND worker_id <> %(worker_id)s
    AND NOT id = ANY (%(skipped)s::bigint[])
LIMIT %(limit)s
