-- Take a token of its rate for each candidate that passes.
CREATE OR REPLACE FUNCTION pgjobs_take_tokens(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO pgjobs_rate AS rate (key, full_at)
    SELECT rate_key, at + make_interval(secs => sum(rate_interval))
    FROM unnest(candidates)
    WHERE obstacle IS NULL AND rate_key IS NOT NULL
    GROUP BY rate_key
    ON CONFLICT (key) DO UPDATE
        SET full_at = greatest(rate.full_at, at) + (excluded.full_at - at);
END
$$;
