-- Check the values of an object with arbitrary keys.
CREATE OR REPLACE FUNCTION pgjobs_checked_object(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    SELECT coalesce(jsonb_object_agg(key, checked.stored), '{}'),
        string_agg(format('[''%s''] ', key) || checked.fault, '; ')
    INTO stored, fault
    FROM jsonb_each(value) AS item (key, each)
    CROSS JOIN LATERAL pgjobs_checked(
        coalesce(schema -> 'additionalProperties', '{}'), each
    ) AS checked;
END
$$;
