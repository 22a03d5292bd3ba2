-- Return the jobs at the heads of the lines that wait for these locks, one for each
-- free lock and none for a taken one. Each kind of key has a function of its own,
-- because starting a statement takes longer than looking for a key.
CREATE OR REPLACE FUNCTION pgjobs_next_of_locks(locks text[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        WITH free AS MATERIALIZED (
            SELECT DISTINCT lock FROM unnest(locks) AS touched (lock)
            WHERE NOT EXISTS (
                SELECT FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'lock' = touched.lock
                    AND status IN ('READY', 'RUNNING')
                OFFSET 0  -- asked for each lock: no join with all running jobs
            )
        )
        SELECT first.id
        FROM free CROSS JOIN LATERAL (
            SELECT id, line, queue_name FROM pgjobs_job
            WHERE keys IS NOT NULL
                -- An equation would let the planner walk the primary key.
                AND keys ->> 'lock' BETWEEN free.lock AND free.lock
                AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                AND finished_at IS NULL
            ORDER BY keys ->> 'lock', id LIMIT 1
        ) AS first
        WHERE first.line = pgjobs_line('lock', free.lock)
            AND pgjobs_is_served(first.queue_name)
        UNION ALL
        SELECT head.id
        FROM (
            SELECT array_agg(name) AS lines, array_agg(1) AS ones
            FROM free CROSS JOIN LATERAL pgjobs_line('mutex', lock) AS line (name)
            WHERE EXISTS (SELECT FROM pgjobs_job WHERE line = name OFFSET 0)
            HAVING count(*) > 0
        ) AS mutex
        CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
    );
END
$$;
