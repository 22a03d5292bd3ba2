-- Return the jobs at the heads of the lines that wait for these limits, as many of each
-- as the limit has room for. The first in line says how many that is, as mostly all in a
-- line agree. The next one comes along if it may fit all the same, because it allows
-- more jobs. Then meet_limits asks for those behind it, too.
CREATE OR REPLACE FUNCTION pgjobs_next_of_limits(limits text[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    ids bigint[];
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(id) FILTER (WHERE number = 1),
        array_agg(line) FILTER (WHERE number > 1),
        array_agg(number) FILTER (WHERE number > 1)
    INTO ids, lines, numbers
    FROM (
        SELECT line, id, CASE
                WHEN allowed - running = 1 AND next_allowed > allowed THEN 2
                WHEN allowed - running > 1 THEN least(most, allowed - running + 1)
                ELSE allowed - running
            END AS number
        FROM (
            SELECT array_agg(pgjobs_line('limit', limit_key)) AS lines,
                array_agg(2) AS twos
            FROM (SELECT DISTINCT unnest(limits)) AS touched (limit_key)
        ) AS touched
        CROSS JOIN LATERAL (
            SELECT line, id, place, keys ->> 'limit_key' AS key,
                (keys ->> 'max_running')::integer AS allowed,
                lead((keys ->> 'max_running')::integer)
                    OVER (PARTITION BY line ORDER BY place) AS next_allowed
            FROM pgjobs_heads(touched.lines, twos)
        ) AS first
        CROSS JOIN LATERAL (
            SELECT count(*)::integer FROM (
                SELECT FROM pgjobs_job
                WHERE keys IS NOT NULL AND keys ->> 'limit_key' = first.key
                    AND status IN ('READY', 'RUNNING')
                LIMIT allowed
            ) AS place
            OFFSET 0
        ) AS counted (running)
        WHERE place = 1
        OFFSET 0  -- counted once, although it is used several times
    ) AS room;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
