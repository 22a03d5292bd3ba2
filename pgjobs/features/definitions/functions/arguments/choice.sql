-- Return the choice that a value equals, as it was declared, or NULL. As in Python 1,
-- 1.0 and true are equal.
CREATE OR REPLACE FUNCTION pgjobs_choice(choices jsonb, value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    numbers CONSTANT jsonb := '{"true": 1, "false": 0}';
BEGIN
    IF jsonb_typeof(value) IN ('string', 'null') THEN
        RETURN CASE WHEN choices @> jsonb_build_array(value) THEN value END;
    END IF;
    RETURN choice FROM jsonb_array_elements(choices) AS item (choice)
    WHERE coalesce(numbers -> choice::text, choice)
        = coalesce(numbers -> value::text, value)
    LIMIT 1;
END
$$;
