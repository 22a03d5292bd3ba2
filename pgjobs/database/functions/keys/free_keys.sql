-- Free those of these unique keys that jobs held for a period which is over.
CREATE OR REPLACE FUNCTION pgjobs_free_keys(unique_keys text[]) RETURNS void
LANGUAGE sql
SET search_path FROM CURRENT
AS $$
    WITH over AS MATERIALIZED (
        SELECT id FROM pgjobs_job
        WHERE unique_key = ANY (unique_keys)
            AND unique_for = 'period'
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
            AND unique_until <= clock_timestamp()
        ORDER BY unique_key
        FOR NO KEY UPDATE
    )
    UPDATE pgjobs_job SET unique_until = NULL
    WHERE id = ANY (ARRAY(SELECT id FROM over))
$$;
