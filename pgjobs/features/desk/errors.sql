-- The latest failed jobs, counted by their group of errors and by the hour in which they
-- failed. Jobs without a group failed without an exception.
SELECT task, error_group, hour, count(*), max(finished_at), max(id)
FROM (
    SELECT id, task, error_group, finished_at,
        least(floor(extract(epoch FROM now() - finished_at) / 3600), %(hours)s)::integer
            AS hour
    FROM pgjobs_job
    WHERE status = 'FAILED' AND finished_at IS NOT NULL
    ORDER BY finished_at DESC LIMIT %(looked_at)s
) AS failed
GROUP BY task, error_group, hour
