-- Return the arguments as they are stored: checked, and with the defaults filled in.
CREATE OR REPLACE FUNCTION pgjobs_checked_arguments(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    properties CONSTANT jsonb := definition.parameters -> 'properties';
    others CONSTANT jsonb := definition.parameters -> 'additionalProperties';
    most CONSTANT integer := definition.options -> 'max_argument_bytes';
    name text;
    schema jsonb;
    value jsonb;
    checked record;
    stored jsonb := '{}';
    faulty text[] := '{}';
    faults text[] := '{}';
    size integer;
BEGIN
    FOR name, schema, value IN
        SELECT property.key, property.value, arguments -> property.key
        FROM jsonb_each(properties) AS property
        UNION ALL
        SELECT other.key, others, other.value FROM jsonb_each(arguments) AS other
        WHERE NOT properties ? other.key
    LOOP
        checked := pgjobs_checked_argument(schema, value);
        IF checked.fault IS NULL THEN
            stored := stored || jsonb_build_object(name, checked.stored);
        ELSE
            faulty := faulty || name;
            faults := faults || (name || ': ' || checked.fault);
        END IF;
    END LOOP;
    IF faults = '{}' THEN
        size := pgjobs_json_size(stored, most - 2) + 2;
        IF size <= most THEN
            RETURN stored;
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
