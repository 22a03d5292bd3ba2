-- Lock one job after the other until there are enough.
-- A job with one crash left runs alone, so the claim ends before it unless it comes
-- first.
-- MATERIALIZED: if it ran more than once, it would lock more rows than LIMIT.
-- All are locked by one query: for each query that meets a job which was claimed since
-- the statement began, PostgreSQL prepares the whole statement once more.
-- A plain "status = 'READY'" would tempt the planner to an index of READY jobs. It
-- looks small when the plan is made, and would be walked as a whole.
picked AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
    FROM (
        SELECT id, crashes + 1 >= max_crashes AS is_suspect
        FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT id FROM eligible)) AND status || '' = 'READY'
        ORDER BY priority DESC, turn
        LIMIT least(%(limit)s, (
            SELECT greatest(
                (SELECT count(*) FROM eligible WHERE place < suspect.place), 1
            )
            FROM eligible AS suspect WHERE is_suspect
            ORDER BY place LIMIT 1
        ))
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
),
