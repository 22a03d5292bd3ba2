-- Count the starts of jobs with rates that these notes name, and take back those that were
-- given back.
CREATE OR REPLACE FUNCTION pgjobs_take_starts(notes jsonb[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    begun jsonb[];
    returned jsonb[];
BEGIN
    SELECT array_agg(keys) FILTER (WHERE keys ? 'rate_started_at'),
        array_agg(keys) FILTER (WHERE keys ? 'rate_returned_at')
    INTO begun, returned
    FROM unnest(notes) AS note (keys);
    IF begun IS NOT NULL THEN
        PERFORM pgjobs_count_starts(begun);
    END IF;
    IF returned IS NOT NULL THEN
        PERFORM pgjobs_return_starts(returned);
    END IF;
END
$$;
