-- Look at some jobs of a status that finished longer ago than an age, behind a position,
-- and delete those that nothing needs. Say how many went, whether more may follow, and
-- behind which job: NULL if there was none.
-- SKIP LOCKED: several workers prune without waiting for each other.
-- WITH TIES: an index has the jobs in the order of this time. To order them by id as well,
-- PostgreSQL would read and sort all that are old, for each slice again.
WITH near AS MATERIALIZED (
    SELECT id, finished_at FROM pgjobs_job
    WHERE
        \ir prune/old_jobs.sql
        AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, finished_at FROM near ORDER BY finished_at, id LIMIT %(limit)s
),
\ir prune/named.sql
old AS MATERIALIZED (
    SELECT seen.id
    -- One look-up for each, however few jobs the planner expects.
    FROM seen CROSS JOIN LATERAL (
        SELECT FROM pgjobs_job AS job
        WHERE job.id = seen.id
            -- It may have been retried meanwhile, and have finished again: EvalPlanQual
            -- tests the newest version. (For an equation the planner might take another
            -- index.)
            AND job.finished_at IS NOT DISTINCT FROM seen.finished_at
            AND (
            \ir prune/why_kept.sql
            ) IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS job
),
pruned AS (
    DELETE FROM pgjobs_job WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
),
last AS (
    SELECT finished_at, id FROM seen ORDER BY finished_at DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM pruned), looked.number = %(limit)s, last.finished_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
