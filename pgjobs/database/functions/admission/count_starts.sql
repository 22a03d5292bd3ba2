-- Count starts of jobs with rates: each has `rate_key`, `rate_interval`, `rate_number`
-- and `rate_started_at`, in seconds since 1970. Several starts of a slice of time become
-- one entry with the last of them. A slice is a 64th of the shortest period of the key,
-- and at most a 64th of the time that has gone by since: so a key has some hundred
-- entries at most, however many jobs start, and rates of any period can share it. The
-- slices are halves of halves, so that merging them again and again makes none longer.
CREATE OR REPLACE FUNCTION pgjobs_count_starts(counted jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    at timestamptz := clock_timestamp();
BEGIN
    INSERT INTO pgjobs_rate AS rate
        (key, full_at, starts, counts, even_at, shortest, longest)
    SELECT key, at + make_interval(secs => max(period)) + make_interval(secs => sum(step)),
        array_agg(started_at ORDER BY started_at), array_agg(1),
        max(started_at + make_interval(secs => later * step)),
        min(period), max(period)
    FROM (
        SELECT *, count(*) OVER (
                PARTITION BY key ORDER BY started_at DESC ROWS UNBOUNDED PRECEDING
            ) AS later
        FROM (
            SELECT start.keys ->> 'rate_key' AS key,
                least(at, to_timestamp((start.keys -> 'rate_started_at')::float8))
                    AS started_at,
                interval * pgjobs_rate_number(start.keys) AS period,
                -- Rounded up: a time has whole microseconds.
                CASE
                    WHEN interval < 1e-4 THEN interval
                    ELSE ceil(interval * 1e6) / 1e6
                END AS step
            FROM unnest(counted) AS start (keys)
            CROSS JOIN LATERAL (
                SELECT (start.keys -> 'rate_interval')::float8
            ) AS own (interval)
        ) AS start
    ) AS start
    GROUP BY key
    ON CONFLICT (key) DO UPDATE SET
        full_at = greatest(
            at + make_interval(secs => greatest(rate.longest, excluded.longest)),
            excluded.even_at
        ),
        -- All steps of these starts: what full_at has beyond the period.
        even_at = greatest(
            least(coalesce(rate.even_at, rate.full_at), at + make_interval(
                secs => greatest(rate.longest, excluded.longest)
            )) + (
                excluded.full_at - at - make_interval(secs => excluded.longest)
            ),
            excluded.even_at
        ),
        shortest = least(rate.shortest, excluded.shortest),
        longest = greatest(rate.longest, excluded.longest),
        (starts, counts) = (
            SELECT merged.starts, merged.counts
            FROM pgjobs_merge_starts(
                coalesce(rate.starts, '{}') || excluded.starts,
                coalesce(rate.counts, '{}') || excluded.counts,
                least(rate.shortest, excluded.shortest),
                greatest(rate.longest, excluded.longest), at
            ) AS merged
        );
END
$$;
