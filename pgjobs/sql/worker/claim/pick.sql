-- Lock one job after the other until there are enough.
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
            \ir before_suspect.sql
        ))
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
),
