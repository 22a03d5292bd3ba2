-- Count the starts of the candidates that have been claimed: those without an obstacle.
CREATE OR REPLACE FUNCTION pgjobs_count_claimed(candidates pgjobs_candidate[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgjobs_count_starts(array_agg(keys || jsonb_build_object(
        'rate_started_at', extract(epoch FROM clock_timestamp())
    )))
    FROM pgjobs_job
    WHERE id = ANY (ARRAY(
            SELECT id FROM unnest(candidates)
            WHERE obstacle IS NULL AND rate_key IS NOT NULL
        ))
    HAVING count(*) > 0;
END
$$;
