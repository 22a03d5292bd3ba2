-- Return jobs behind those whose rows other transactions hold, twice as many from each
-- line. (Of an ordered lock only the first job can be next.)
CREATE OR REPLACE FUNCTION pgjobs_next_behind(unseen bigint[]) RETURNS bigint[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT head.id
        FROM (
            SELECT array_agg(line) AS lines, array_agg(2 * number) AS numbers
            FROM (
                SELECT line, count(*)::integer AS number
                FROM (
                    SELECT line FROM pgjobs_job
                    WHERE id = ANY (unseen) AND status = 'WAITING'
                    OFFSET 0  -- or the planner would walk over all that have a line
                ) AS job
                WHERE line = 'arrived'
                    OR line LIKE '% %' AND line !~ '^(lock|unserved) '
                GROUP BY line
            ) AS held
        ) AS held
        CROSS JOIN LATERAL pgjobs_heads(held.lines, numbers) AS head
        WHERE NOT head.id = ANY (unseen)
    );
END
$$;
