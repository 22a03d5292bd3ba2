-- Return a value as an error message quotes it.
CREATE OR REPLACE FUNCTION pgjobs_shortened(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN length(value::text) <= 100 THEN value::text
        ELSE left(value::text, 97) || '...'
    END;
END
$$;
