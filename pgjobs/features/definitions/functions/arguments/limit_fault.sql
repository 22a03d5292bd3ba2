-- Return which limit of its schema a value exceeds, or NULL.
CREATE OR REPLACE FUNCTION pgjobs_limit_fault(schema jsonb, value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    is_array CONSTANT boolean := jsonb_typeof(value) = 'array';
    noun CONSTANT text := CASE WHEN is_array THEN 'items' ELSE 'characters' END;
    least text := coalesce(schema ->> 'minItems', schema ->> 'minLength');
    most text := coalesce(schema ->> 'maxItems', schema ->> 'maxLength');
    size integer;
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        RETURN 'input should be ' || CASE
            WHEN value < schema -> 'minimum'
                THEN 'greater than or equal to ' || (schema ->> 'minimum')
            WHEN value <= schema -> 'exclusiveMinimum'
                THEN 'greater than ' || (schema ->> 'exclusiveMinimum')
            WHEN value > schema -> 'maximum'
                THEN 'less than or equal to ' || (schema ->> 'maximum')
            WHEN value >= schema -> 'exclusiveMaximum'
                THEN 'less than ' || (schema ->> 'exclusiveMaximum')
        END;
    END IF;
    size := CASE
        WHEN is_array THEN jsonb_array_length(value) ELSE length(value #>> '{}')
    END;
    RETURN CASE
        WHEN size < least::integer
            THEN format('should have at least %s %s', least, noun)
        WHEN size > most::integer
            THEN format('should have at most %s %s', most, noun)
    END;
END
$$;
