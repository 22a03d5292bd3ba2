-- Return the jobs at the heads of the lines that wait for these rates, as many of each
-- as may start at once if the first may start now. If that one has to wait, return
-- it alone where nobody knows yet until when, or where it is earlier than was known.
CREATE OR REPLACE FUNCTION pgjobs_next_of_rates(rates jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    at timestamptz := clock_timestamp();
    ids bigint[];
    lines text[];
    numbers integer[];
BEGIN
    SELECT array_agg(id) FILTER (
            WHERE next_at > at
                AND (opens_at <= next_at + interval '1 ms') IS NOT TRUE
        ),
        array_agg(line) FILTER (WHERE next_at <= at),
        array_agg(least(most, number, burst)) FILTER (WHERE next_at <= at)
    INTO ids, lines, numbers
    FROM (
        SELECT head.id, head.line, number, burst, state.opens_at, pgjobs_rate_opens(
                starts, counts, even_at, number,
                number * (head.keys -> 'rate_interval')::float8,
                burst, taken + 1, at
            ) AS next_at
        FROM (
            SELECT array_agg(pgjobs_line('rate', rate_key)) AS lines,
                array_agg(1) AS ones
            FROM (
                SELECT DISTINCT keys ->> 'rate_key' FROM unnest(rates) AS touched (keys)
            ) AS touched (rate_key)
        ) AS touched
        CROSS JOIN LATERAL pgjobs_heads(touched.lines, ones) AS head
        CROSS JOIN LATERAL (
            SELECT pgjobs_rate_number(head.keys) AS number,
                (head.keys -> 'rate_burst')::integer AS burst
            OFFSET 0
        ) AS own
        CROSS JOIN LATERAL pgjobs_rate_states(
            ARRAY[head.keys ->> 'rate_key'], 2147483647
        ) AS state
        OFFSET 0  -- computed once, although it is used several times
    ) AS first;
    IF lines IS NOT NULL THEN
        ids := ids || ARRAY(SELECT id FROM pgjobs_heads(lines, numbers));
    END IF;
    RETURN coalesce(ids, '{}');
END
$$;
