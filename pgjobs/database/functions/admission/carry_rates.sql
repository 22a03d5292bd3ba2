-- Carry on with the rates of release 0.9.0, which stored only when a rate would have all
-- its tokens again: what was taken and has not come back counts as if it started now.
CREATE OR REPLACE FUNCTION pgjobs_carry_rates(ids bigint[], at timestamptz)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pgjobs_rate
    SET starts = ARRAY[at], counts = ARRAY[greatest(0, least(burst, ceil(
            extract(epoch FROM full_at - at)::float8 / step
        )))::integer]
    FROM (
        SELECT DISTINCT ON (name) keys ->> 'rate_key' AS name,
            (keys -> 'rate_interval')::float8 AS step,
            (keys -> 'rate_burst')::integer AS burst
        FROM pgjobs_job WHERE id = ANY (ids) AND keys ? 'rate_key'
        ORDER BY name, step DESC
    ) AS job
    -- By its index, also where the planner expects an empty table.
    WHERE key = ANY (ARRAY(
            SELECT keys ->> 'rate_key' FROM pgjobs_job WHERE id = ANY (ids)
        ))
        AND key = name AND starts IS NULL;
END
$$;
