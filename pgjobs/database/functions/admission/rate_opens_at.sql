-- Return when a rate lets its n-th next job start.
CREATE OR REPLACE FUNCTION pgjobs_rate_opens_at(
    full_at timestamptz, rate_interval double precision, rate_burst integer,
    n bigint, at timestamptz
) RETURNS timestamptz LANGUAGE sql IMMUTABLE AS $$
    -- A bucket of `rate_burst` tokens, which gets one back each interval. The time when
    -- it will be full is its whole state (the "generic cell rate algorithm").
    SELECT greatest(full_at, at) + make_interval(secs => (n - rate_burst) * rate_interval)
$$;
