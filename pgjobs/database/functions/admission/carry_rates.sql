-- Carry on with the rates of release 0.9.0, which stored only when a rate would have all
-- its tokens again: what was taken and has not come back counts as if it started now.
CREATE OR REPLACE FUNCTION pgjobs_carry_rates(
    candidates pgjobs_candidate[], at timestamptz
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate
    SET starts = ARRAY[at], counts = ARRAY[greatest(0, least(rate_burst, ceil(
            extract(epoch FROM full_at - at)::float8 / rate_interval
        )))::integer]
    FROM (
        SELECT DISTINCT ON (rate_key) rate_key, rate_interval, rate_burst
        FROM unnest(candidates) WHERE rate_key IS NOT NULL
        ORDER BY rate_key, rate_interval DESC
    ) AS candidate
    -- By its index, also where the planner expects an empty table.
    WHERE key = ANY (ARRAY(
            SELECT candidate.rate_key FROM unnest(candidates) AS candidate
        ))
        AND key = rate_key AND starts IS NULL;
END
$$;
