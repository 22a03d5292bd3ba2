-- Return the jobs that may be next after these keys have been touched.
CREATE OR REPLACE FUNCTION pgjobs_next_in_lines(touched jsonb[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    locks text[];
    limits text[];
    rates jsonb[];
    ids bigint[] := '{}';
BEGIN
    SELECT array_agg(keys ->> 'lock') FILTER (WHERE keys ? 'lock'),
        array_agg(keys ->> 'limit_key') FILTER (WHERE keys ? 'limit_key'),
        array_agg(keys) FILTER (WHERE keys ? 'rate_key')
    INTO locks, limits, rates
    FROM unnest(touched) AS touched (keys);
    IF locks IS NOT NULL THEN
        ids := ids || pgjobs_next_of_locks(locks);
    END IF;
    IF limits IS NOT NULL THEN
        ids := ids || pgjobs_next_of_limits(limits, most);
    END IF;
    IF rates IS NOT NULL THEN
        ids := ids || pgjobs_next_of_rates(rates, most);
    END IF;
    RETURN ids;
END
$$;
