-- Take the rates that have a token again: their keys are freed.
CREATE OR REPLACE FUNCTION pgjobs_take_due_rates(
    most integer, OUT freed_keys jsonb[], OUT rate_lines text[]
) LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS (
        UPDATE pgjobs_rate SET opens_at = NULL
        WHERE key = ANY (ARRAY(
            SELECT key FROM pgjobs_rate WHERE opens_at <= statement_timestamp()
            ORDER BY opens_at LIMIT most
        ))
        RETURNING key
    )
    SELECT coalesce(array_agg(jsonb_build_object('rate_key', key)), '{}'),
        coalesce(array_agg(pgjobs_line('rate', key)), '{}')
    INTO freed_keys, rate_lines
    FROM due;
END
$$;
