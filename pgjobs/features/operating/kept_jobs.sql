-- Why a part of the old jobs of a status, behind a position, is not pruned: {reason: number}
-- with the first reason of each job. See prune.sql. Say whether more may follow, and behind
-- which job: NULL if there was none.
WITH near AS MATERIALIZED (
    SELECT id, finished_at FROM pgjobs_job
    WHERE
        \ir ../../sql/upkeep/prune/old_jobs.sql
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, finished_at FROM near ORDER BY finished_at, id LIMIT %(limit)s
),
\ir ../../sql/upkeep/prune/named.sql
kept AS (
    SELECT why.reason, count(*) AS number
    FROM seen CROSS JOIN LATERAL (
        SELECT
        \ir ../../sql/upkeep/prune/why_kept.sql
        AS reason
        FROM pgjobs_job AS job
        WHERE job.id = seen.id AND job.finished_at IS NOT DISTINCT FROM seen.finished_at
        OFFSET 0  -- one look-up for each, however few jobs the planner expects
    ) AS why
    WHERE why.reason IS NOT NULL
    GROUP BY why.reason
),
last AS (
    SELECT finished_at, id FROM seen ORDER BY finished_at DESC, id DESC LIMIT 1
)
SELECT (SELECT coalesce(jsonb_object_agg(reason, number), '{}')::text FROM kept),
    looked.number = %(limit)s, last.finished_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
