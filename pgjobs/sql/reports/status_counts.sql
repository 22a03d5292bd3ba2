-- How many jobs there are of each status, up to a number. Each count names the condition
-- of an index, and its order. Otherwise PostgreSQL may walk over the table, since it does
-- not know that the newest jobs stand at its end.
SELECT 'READY', count(*)
FROM (
    SELECT FROM pgjobs_job WHERE status = 'READY' ORDER BY queue_name LIMIT %(most)s
) AS job
UNION ALL
SELECT 'SCHEDULED', count(*)
FROM (
    SELECT FROM pgjobs_job WHERE status = 'SCHEDULED' ORDER BY run_after LIMIT %(most)s
) AS job
UNION ALL
SELECT 'WAITING', count(*)
FROM (
    SELECT FROM pgjobs_job
    -- CASE: see IS_WAITING in models/job_set.py.
    WHERE CASE status WHEN 'WAITING' THEN true ELSE false END AND line IS NOT NULL
    ORDER BY line LIMIT %(most)s
) AS job
UNION ALL
SELECT 'RUNNING', count(*)
FROM (
    SELECT FROM pgjobs_job WHERE status = 'RUNNING' ORDER BY worker_id LIMIT %(most)s
) AS job
UNION ALL
\ir ended_counts.sql
