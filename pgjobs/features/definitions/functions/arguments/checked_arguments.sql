-- Return the arguments as they are stored: checked, and with the defaults filled in.
CREATE OR REPLACE FUNCTION pgjobs_checked_arguments(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    most CONSTANT integer := definition.options -> 'max_argument_bytes';
    checked record := pgjobs_checked_object(definition.parameters, arguments);
    faulty text[] := checked.names;
    faults text[] := ARRAY(
        SELECT name || ': ' || fault
        FROM unnest(checked.names, checked.faults) AS found (name, fault)
    );
    size integer;
BEGIN
    IF faulty IS NULL THEN
        SELECT array_agg(key), array_agg(key || ': ' || fault) INTO faulty, faults
        FROM jsonb_each(checked.stored) AS each
        CROSS JOIN LATERAL pgjobs_json_fault(each.value, 0) AS fault
        WHERE jsonb_typeof(each.value) NOT IN ('string', 'boolean', 'null')
            AND fault IS NOT NULL;
    END IF;
    IF faulty IS NULL THEN
        size := pgjobs_json_size(checked.stored, most - 2) + 2;
        IF size <= most THEN
            RETURN checked.stored;
        END IF;
        faulty := ARRAY['arguments'];
        faults := ARRAY[format(
            'arguments: are %s bytes of JSON, more than the %s that '
            'PGJOBS[''MAX_ARGUMENT_BYTES''] allows', size, most
        )];
    END IF;
    RAISE EXCEPTION 'Invalid arguments for %: %.', definition.name,
        array_to_string(faults, '; ')
        USING ERRCODE = '22023', COLUMN = faulty[1],
            HINT = pgjobs_usage(definition.parameters);
END
$$;
