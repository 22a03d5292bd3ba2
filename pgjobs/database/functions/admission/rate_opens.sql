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
) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    opens_at timestamptz := at;
    total bigint := extra;
BEGIN
    IF total > number THEN
        opens_at := at + make_interval(secs => period);
    ELSE
        FOR place IN REVERSE coalesce(cardinality(starts), 0) .. 1 LOOP
            total := total + counts[place];
            IF total > number THEN
                opens_at := greatest(at, least(starts[place], at)
                    + make_interval(secs => period));
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF burst < number THEN
        opens_at := greatest(
            opens_at,
            greatest(
                least(
                    coalesce(even_at, at),  -- none has started
                    at + make_interval(secs => period * burst / number)
                ),
                at
            ) + make_interval(secs => period / number * (extra - burst))
        );
    END IF;
    RETURN opens_at;
END
$$;
