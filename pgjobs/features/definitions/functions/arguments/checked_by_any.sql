-- Check a value by several schemas, of which it must fit one.
CREATE OR REPLACE FUNCTION pgjobs_checked_by_any(
    schemas jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    schema jsonb;
    faults text[];
BEGIN
    FOR schema IN SELECT * FROM jsonb_array_elements(schemas) LOOP
        SELECT * INTO stored, fault FROM pgjobs_checked(schema, value);
        IF fault IS NULL THEN
            RETURN;
        ELSIF schema ->> 'type' IS DISTINCT FROM 'null' THEN
            faults := faults || fault;
        END IF;
    END LOOP;
    fault := array_to_string(faults, '; ');
END
$$;
