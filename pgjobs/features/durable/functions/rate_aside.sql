-- Set the rate of a job aside while it is suspended: to go on is no start. `attempts`: that
-- of the stretch which has ended.
CREATE OR REPLACE FUNCTION pgjobs_rate_aside(keys jsonb, attempts integer)
RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - rate || jsonb_build_object('rate_aside', (
            SELECT jsonb_object_agg(key, value)
            FROM jsonb_each(keys || coalesce(keys -> 'rate_aside', '{}'))
            WHERE key = ANY (rate)
        ) || jsonb_build_object('attempts', attempts))
    FROM (
        SELECT ARRAY['rate_key', 'rate_interval', 'rate_burst', 'rate_number']
    ) AS own (rate)
$$;
