-- The successes that prune_successes.sql looks at next, to find the one that cannot be
-- deleted. Some of them may be kept for another reason.
SELECT id
FROM (
    SELECT id, finished_at FROM pgjobs_job
    WHERE
        \ir prune/stored_successes.sql
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY finished_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
) AS near
ORDER BY finished_at, id
LIMIT %(limit)s
