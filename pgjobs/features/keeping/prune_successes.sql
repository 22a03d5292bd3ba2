-- Look at some successes that were to be deleted and were stored, because something needed
-- them, behind a position. Delete those that nothing needs any more, as prune.sql does. What
-- belongs to a batch or delivers an event is pruned with the others of its status, since their
-- pages count it, and so is what has a follow-up, which is told its id, or goes on as another
-- job, which is found by it.
WITH near AS MATERIALIZED (
    SELECT id, finished_at FROM pgjobs_job
    WHERE
        \ir prune/stored_successes.sql
        AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, finished_at FROM near ORDER BY finished_at, id LIMIT %(limit)s
),
\ir ../../sql/upkeep/prune/named.sql
-- Jobs for which a process waits: see queue/waiting.py.
awaited AS MATERIALIZED (
    SELECT array_agg(objid) AS objids FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 1885825635 AND objsubid = 2
),
old AS MATERIALIZED (
    SELECT seen.id
    FROM seen CROSS JOIN LATERAL (
        SELECT FROM pgjobs_job AS job
        WHERE job.id = seen.id
            AND job.finished_at IS NOT DISTINCT FROM seen.finished_at
            AND NOT EXISTS (
                SELECT FROM pgjobs_delivery WHERE job_id = job.id OFFSET 0
            )
            AND NOT (
                job.meta ->> 'parent_id' ~ '^[0-9]{1,18}$' AND EXISTS (
                    SELECT FROM pgjobs_job AS parent
                    WHERE parent.id = (job.meta ->> 'parent_id')::bigint
                        AND parent.finished_at IS NULL
                    OFFSET 0
                )
            ) IS TRUE
            AND ((job.id %% 2147483648)::oid = ANY ((SELECT objids FROM awaited)::oid[]))
                IS NOT TRUE
            AND (
            \ir ../../sql/upkeep/prune/why_kept.sql
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
