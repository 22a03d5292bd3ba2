-- Return the jobs at the heads of the lines that wait for these limits, as many of each
-- as the limit has room for.
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
        -- As many as the first job in line allows.
        SELECT first.line, first.id, least(most, allowed - (
                SELECT count(*) FROM (
                    SELECT FROM pgjobs_job AS job
                    WHERE job.keys IS NOT NULL
                        AND job.keys ->> 'limit_key' = first.keys ->> 'limit_key'
                        AND status IN ('READY', 'RUNNING')
                    LIMIT allowed
                ) AS running
            )) AS number
        FROM (
            SELECT array_agg(pgjobs_line('limit', limit_key)) AS lines,
                array_agg(1) AS ones
            FROM (SELECT DISTINCT unnest(limits)) AS touched (limit_key)
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(touched.lines, ones) AS first
        CROSS JOIN LATERAL (
            SELECT (first.keys ->> 'max_running')::integer
        ) AS that (allowed)
        OFFSET 0  -- counted once, although it is used several times
    ) AS room;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
