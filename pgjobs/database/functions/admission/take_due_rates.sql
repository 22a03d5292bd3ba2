-- Take the rates that have a token again.
CREATE OR REPLACE FUNCTION pgjobs_take_due_rates(most integer, OUT rate_keys text[])
LANGUAGE plpgsql AS $$
BEGIN
    WITH due AS (
        UPDATE pgjobs_rate SET opens_at = NULL
        WHERE key = ANY (ARRAY(
            SELECT key FROM pgjobs_rate WHERE opens_at <= statement_timestamp()
            ORDER BY opens_at LIMIT most
        ))
        RETURNING key
    )
    SELECT coalesce(array_agg(key), '{}') INTO rate_keys FROM due;
END
$$;
