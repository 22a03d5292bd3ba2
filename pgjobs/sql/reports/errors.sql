-- The latest failed jobs, counted by exception class and task.
-- Bounded by %(looked_at)s, because there is no index by the class.
SELECT failed.task, coalesce(attempt.exception_class, '') AS exception_class,
    count(*), min(failed.finished_at), max(failed.finished_at), max(failed.id)
FROM (
    SELECT id, task, life, attempts, finished_at FROM pgjobs_job
    WHERE status = 'FAILED' AND finished_at IS NOT NULL
    ORDER BY finished_at DESC LIMIT %(looked_at)s
) AS failed
LEFT JOIN LATERAL (
    SELECT exception_class FROM pgjobs_attempt
    WHERE job_id = failed.id AND life = failed.life AND outcome IN ('FAILED', 'CRASHED')
    ORDER BY number DESC LIMIT 1
) AS attempt ON TRUE
GROUP BY failed.task, coalesce(attempt.exception_class, '')
ORDER BY count(*) DESC, max(failed.finished_at) DESC
LIMIT %(most)s
