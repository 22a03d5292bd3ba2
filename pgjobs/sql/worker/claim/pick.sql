-- Lock one job after the other until there are enough.
-- A job with one crash left runs alone, so the claim ends before it unless it comes
-- first.
-- MATERIALIZED: if it ran more than once, it would lock more rows than LIMIT.
-- A plain "status = 'READY'" would tempt the planner to an index of READY jobs. It
-- looks small when the plan is made, and would be walked as a whole for each job.
picked AS MATERIALIZED (
    SELECT eligible.*
    FROM eligible CROSS JOIN LATERAL (
        SELECT FROM pgjobs_job WHERE id = eligible.id AND status || '' = 'READY'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    LIMIT least(%(limit)s, (
        SELECT greatest((SELECT count(*) FROM eligible WHERE place < suspect.place), 1)
        FROM eligible AS suspect WHERE is_suspect
        ORDER BY place LIMIT 1
    ))
),
