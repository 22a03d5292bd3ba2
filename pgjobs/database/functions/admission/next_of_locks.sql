-- Return the jobs at the heads of the lines that wait for these locks, one for each
-- free lock and none for a taken one. Most locks have no line, so this asks for it
-- first. Each kind of key has a function of its own, because starting a statement takes
-- longer than looking for a key.
CREATE OR REPLACE FUNCTION pgjobs_next_of_locks(locks text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH free AS MATERIALIZED (
            SELECT lock, is_ordered, line
            FROM (SELECT DISTINCT unnest(locks)) AS touched (lock)
            CROSS JOIN LATERAL (
                VALUES (true, pgjobs_line('lock', lock)),
                    (false, pgjobs_line('mutex', lock))
            ) AS each (is_ordered, line)
            -- OFFSET 0: asked for each lock, so that there is no join with all jobs.
            WHERE EXISTS (
                SELECT FROM pgjobs_job AS job WHERE job.line = each.line OFFSET 0
            ) AND NOT EXISTS (
                SELECT FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'lock' = touched.lock
                    AND status IN ('READY', 'RUNNING')
                OFFSET 0
            )
        )
        SELECT first.id
        FROM free CROSS JOIN LATERAL (
            SELECT id, line, queue_name FROM pgjobs_job
            WHERE keys IS NOT NULL
                -- An equation would let the planner walk the primary key.
                AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                AND status IN ('WAITING', 'SCHEDULED')
            ORDER BY keys ->> 'lock', id LIMIT 1
        ) AS first
        WHERE is_ordered AND first.line = free.line
            AND pgjobs_is_served(first.queue_name)
        UNION ALL
        SELECT head.id
        FROM (
            SELECT array_agg(line) AS lines, array_agg(1) AS ones
            FROM free WHERE NOT is_ordered
            HAVING count(*) > 0
        ) AS mutex
        CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
    );
END
$$;
