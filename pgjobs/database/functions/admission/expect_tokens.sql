-- Store when the rates for which jobs wait let the next one start. What was stored before
-- the clock was set back counts from now on.
CREATE OR REPLACE FUNCTION pgjobs_expect_tokens(rate_lines text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgjobs_rate AS rate (
        key, full_at, opens_at, starts, counts, even_at, shortest, longest
    )
    SELECT state.key, at,
        pgjobs_rate_opens(
            state.starts, state.counts, state.even_at, number, period, burst,
            taken + 1, at
        ),
        '{}', '{}', at, period, period
    FROM (
        SELECT array_agg(line) AS lines, array_agg(1) AS ones
        FROM (SELECT DISTINCT unnest(rate_lines)) AS rate (line)
    ) AS wanted
    CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS head
    CROSS JOIN LATERAL (
        SELECT pgjobs_rate_number(head.keys) AS number,
            (head.keys -> 'rate_interval')::float8 AS step,
            (head.keys -> 'rate_burst')::integer AS burst
        OFFSET 0
    ) AS own
    CROSS JOIN LATERAL (SELECT number * step AS period) AS that
    CROSS JOIN LATERAL pgjobs_rate_states(
        ARRAY[head.keys ->> 'rate_key'], 2147483647
    ) AS state
    ON CONFLICT (key) DO UPDATE SET opens_at = excluded.opens_at,
        even_at = least(
            coalesce(rate.even_at, rate.full_at),
            at + make_interval(secs => greatest(rate.longest, excluded.longest))
        ),
        full_at = least(
            rate.full_at,
            at + make_interval(secs => greatest(rate.longest, excluded.longest))
        ),
        shortest = least(rate.shortest, excluded.shortest),
        longest = greatest(rate.longest, excluded.longest),
        starts = ARRAY(SELECT least(start, at) FROM unnest(rate.starts) AS start),
        counts = coalesce(rate.counts, '{}');
END
$$;
