-- Return why Python could not read a value back, in the words of `check_json`, or NULL.
CREATE OR REPLACE FUNCTION pgjobs_json_fault(value jsonb, depth integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text := jsonb_typeof(value);
BEGIN
    IF kind = 'number' THEN
        IF octet_length(value::text) < 300 THEN
            RETURN NULL;
        ELSIF scale(value::numeric) = 0 THEN
            RETURN CASE WHEN abs(value::numeric) >= 2::numeric ^ 14000
                THEN 'an integer has too many digits' END;
        END IF;
        RETURN CASE WHEN NOT pgjobs_fits_float(value::numeric)
            THEN 'inf is not JSON' END;
    ELSIF kind NOT IN ('object', 'array') THEN
        RETURN NULL;
    ELSIF depth >= 100 THEN
        RETURN 'is nested more than 100 deep';
    ELSIF kind = 'array' THEN
        RETURN fault
        FROM jsonb_array_elements(value) AS item (each)
        CROSS JOIN LATERAL pgjobs_json_fault(each, depth + 1) AS fault
        WHERE fault IS NOT NULL LIMIT 1;
    END IF;
    RETURN fault
    FROM jsonb_each(value) AS each
    CROSS JOIN LATERAL pgjobs_json_fault(each.value, depth + 1) AS fault
    WHERE fault IS NOT NULL LIMIT 1;
END
$$;
