-- Return how many jobs of a rate may start in its period, from the keys of a job. A job
-- that does not say it (one of an older release, or of an INSERT) has its burst for it.
CREATE OR REPLACE FUNCTION pgjobs_rate_number(keys jsonb) RETURNS integer
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN (keys -> 'rate_number')::text ~ '^[1-9][0-9]{0,8}$'
            AND (keys -> 'rate_number')::numeric * (keys -> 'rate_interval')::numeric
                <= 3153600000
            THEN (keys -> 'rate_number')::integer
        ELSE (keys -> 'rate_burst')::integer
    END
$$;
