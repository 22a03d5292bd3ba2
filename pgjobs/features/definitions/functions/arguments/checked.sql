-- Check a value by a JSON Schema: return it as it is stored, or why it does not fit.
--
-- It accepts the same values as `hints.py` for the same type hint, and stores them in
-- the same form. A test compares the two. PostgreSQL has one type of number in JSON. A
-- number with decimal places is a float here, any other number an integer.
CREATE OR REPLACE FUNCTION pgjobs_checked(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    kind text := jsonb_typeof(value);
    item text := NULL;  -- which kind of value it should be
BEGIN
    IF schema ? 'x-checked-by' THEN  -- Python checks it when the job runs
        stored := value;
        IF NOT schema -> 'x-types' ? kind THEN
            fault := 'input should be of the JSON type ' || (
                SELECT string_agg(each, ' or ')
                FROM jsonb_array_elements_text(schema -> 'x-types') AS item (each)
            );
        END IF;
    ELSIF schema ? 'enum' THEN
        stored := pgjobs_choice(schema -> 'enum', value);
        IF stored IS NULL THEN
            fault := 'input should be ' || pgjobs_listed(schema -> 'enum');
        END IF;
    ELSIF schema ->> 'format' = 'decimal' THEN
        stored := pgjobs_decimal(value);
        IF stored IS NULL THEN
            fault := 'input should be a valid decimal';
        END IF;
    ELSIF schema ? 'anyOf' THEN
        SELECT * INTO stored, fault
        FROM pgjobs_checked_by_any(schema -> 'anyOf', value);
        RETURN;  -- its faults say what they got
    ELSE
        CASE schema ->> 'type'
        WHEN 'integer' THEN
            stored := value;
            IF kind <> 'number' OR scale(value::numeric) > 0 THEN
                fault := 'input should be a valid integer';
            END IF;
        WHEN 'string' THEN
            stored := value;
            IF kind <> 'string' THEN
                item := 'string';
            ELSIF schema ? 'format' THEN
                SELECT * INTO stored, fault
                FROM pgjobs_formatted(schema ->> 'format', value #>> '{}');
            END IF;
        WHEN 'boolean' THEN
            stored := value;
            IF kind <> 'boolean' THEN
                item := 'boolean';
            END IF;
        WHEN 'number' THEN
            IF kind <> 'number' THEN
                item := 'number';
            ELSIF NOT pgjobs_fits_float(value::numeric) THEN
                fault := 'inf is not JSON';
            ELSE  -- with a decimal place, by which it is a float
                stored := to_jsonb(
                    CASE
                        WHEN length(value::text) <= 15 THEN value::numeric
                        ELSE pgjobs_float_text(value::numeric)::numeric
                    END + 0.0
                );
            END IF;
        WHEN 'null' THEN
            stored := value;
            IF kind <> 'null' THEN
                fault := 'input should be null';
            END IF;
        WHEN 'array' THEN
            IF kind <> 'array' THEN
                item := 'array';
            ELSE
                SELECT * INTO stored, fault
                FROM pgjobs_checked_array(schema, value);
            END IF;
        WHEN 'object' THEN
            IF kind <> 'object' THEN
                fault := 'input should be an object';
            ELSE
                SELECT checked.stored, (
                    SELECT string_agg(
                        format('[''%s''] ', name) || replace(
                            each, 'is no parameter of this task',
                            'extra inputs are not permitted'
                        ), '; '
                    )
                    FROM unnest(checked.names, checked.faults) AS found (name, each)
                )
                INTO stored, fault
                FROM pgjobs_checked_object(schema, value) AS checked;
            END IF;
        ELSE
            stored := value;
        END CASE;
        IF item IS NOT NULL THEN
            fault := 'input should be a valid ' || item;
        ELSIF fault IS NULL AND schema ?| ARRAY[
            'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum',
            'minLength', 'maxLength', 'minItems', 'maxItems'
        ] THEN
            fault := pgjobs_limit_fault(schema, stored);
        END IF;
    END IF;
    IF fault IS NOT NULL AND left(fault, 1) <> '[' THEN
        fault := fault || ', got ' || pgjobs_shortened(value);
    END IF;
END
$$;
