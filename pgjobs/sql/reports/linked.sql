-- Of some waiting jobs: how many wait for predecessors, how many for dependencies, and the
-- first of each.
SELECT waiting_for, count(*), min(id)
FROM (
    SELECT id, waiting_for FROM pgjobs_job
    -- CASE: see IS_WAITING in models/job_set.py.
    WHERE CASE status WHEN 'WAITING' THEN true ELSE false END AND line IS NOT NULL
    ORDER BY line LIMIT %(most)s
) AS job
WHERE waiting_for IN ('predecessor', 'dependency')
GROUP BY waiting_for
ORDER BY waiting_for
