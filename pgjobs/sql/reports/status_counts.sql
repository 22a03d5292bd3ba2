-- How many jobs there are of each status, up to a number. Each count names the condition
-- of an index.
SELECT 'READY', count(*)
FROM (SELECT FROM pgjobs_job WHERE status = 'READY' LIMIT %(most)s) AS job
UNION ALL
SELECT 'SCHEDULED', count(*)
FROM (SELECT FROM pgjobs_job WHERE status = 'SCHEDULED' LIMIT %(most)s) AS job
UNION ALL
SELECT 'WAITING', count(*)
FROM (
    SELECT FROM pgjobs_job WHERE status = 'WAITING' AND line IS NOT NULL LIMIT %(most)s
) AS job
UNION ALL
SELECT 'RUNNING', count(*)
FROM (SELECT FROM pgjobs_job WHERE status = 'RUNNING' LIMIT %(most)s) AS job
UNION ALL
SELECT ended.status, job.number
FROM unnest(ARRAY['SUCCESSFUL', 'FAILED', 'CANCELLED']) AS ended (status)
CROSS JOIN LATERAL (
    SELECT count(*) FROM (
        SELECT FROM pgjobs_job
        WHERE status = ended.status AND finished_at IS NOT NULL
        -- Otherwise the whole table may be read for a status that is rare.
        ORDER BY finished_at LIMIT %(most)s
    ) AS found
) AS job (number)
