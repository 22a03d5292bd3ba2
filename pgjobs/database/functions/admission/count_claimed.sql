-- Count the starts of those of these jobs that have a rate: they have been claimed.
CREATE OR REPLACE FUNCTION pgjobs_count_claimed(ids bigint[])
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pgjobs_count_starts(array_agg(pgjobs_keys_now(task, keys) || jsonb_build_object(
        'rate_started_at', extract(epoch FROM clock_timestamp())
    )))
    FROM pgjobs_job
    WHERE id = ANY (ids) AND keys ? 'rate_key'
    HAVING count(*) > 0;
END
$$;
