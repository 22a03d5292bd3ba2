-- Some of the jobs that each of these workers runs: those that began first.
SELECT worker.id, job.id, job.task, job.last_attempted_at
FROM unnest(%(workers)s::bigint[]) AS worker (id)
CROSS JOIN LATERAL (
    SELECT id, task, last_attempted_at
    FROM pgjobs_job
    WHERE status = 'RUNNING' AND worker_id = worker.id
    ORDER BY last_attempted_at, id
    LIMIT %(most)s
) AS job
