-- Return when a rate lets the job start that is the `extra`-th after those of `starts`.
-- `number` may start in any half-open time of `period` seconds. If `burst` is less, no
-- more than `burst` + k - 1 may start in any half-open time of k * period / number.
--
-- `starts` has the last start of each slice of time, `counts` how many jobs started in
-- the slice. `even_at` is when all evenly spaced starts so far would be over (the
-- "generic cell rate algorithm"). What lies in the future was stored before the clock
-- was set back, and counts as if it happened `at` this moment.
CREATE OR REPLACE FUNCTION pgjobs_rate_opens(
    starts timestamptz[], counts integer[], even_at timestamptz,
    number integer, period double precision, burst integer,
    extra bigint, at timestamptz
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT greatest(
        CASE
            WHEN extra > number THEN at + make_interval(secs => period)
            ELSE (
                SELECT least(last_start, at) + make_interval(secs => period)
                FROM (
                    SELECT last_start, sum(count) OVER (ORDER BY last_start DESC) AS total
                    FROM unnest(starts, counts) AS slice (last_start, count)
                ) AS slice
                WHERE total + extra > number
                ORDER BY last_start DESC LIMIT 1
            )
        END,
        CASE
            WHEN burst < number
                THEN greatest(
                    least(even_at, at + make_interval(secs => period * burst / number)),
                    at
                ) + make_interval(secs => period / number * (extra - burst))
        END,
        '-infinity'
    )
$$;
