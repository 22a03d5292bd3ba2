-- Return what a schema takes, in words for people.
CREATE OR REPLACE FUNCTION pgjobs_described(schema jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN schema ? 'enum' THEN pgjobs_listed(schema -> 'enum')
        WHEN schema ? 'anyOf' THEN (
            SELECT string_agg(pgjobs_described(each), ' or ')
            FROM jsonb_array_elements(schema -> 'anyOf') AS item (each)
        )
        ELSE coalesce(schema ->> 'format', schema ->> 'type', 'any JSON')
    END;
END
$$;
