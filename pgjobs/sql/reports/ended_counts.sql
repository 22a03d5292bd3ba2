-- How many finished jobs there are of each status, up to a number.
SELECT ended.status, job.number
FROM unnest(ARRAY['SUCCESSFUL', 'FAILED', 'CANCELLED']) AS ended (status)
CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM pgjobs_job
        WHERE status = ended.status AND finished_at IS NOT NULL
        ORDER BY finished_at LIMIT %(most)s
    ) AS found
) AS job (number)
