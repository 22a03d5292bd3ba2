-- Return compact JSON with the keys of objects sorted: equal values give equal texts.
CREATE OR REPLACE FUNCTION pgjobs_json_text(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN '{' || coalesce(
            string_agg(
                to_json(key)::text || ':' || pgjobs_json_text(each.value),
                ',' ORDER BY key COLLATE "C"
            ),
            ''
        ) || '}' FROM jsonb_each(value) AS each;
    WHEN 'array' THEN
        RETURN '[' || coalesce(
            string_agg(pgjobs_json_text(each), ',' ORDER BY place), ''
        ) || ']'
        FROM jsonb_array_elements(value) WITH ORDINALITY AS item (each, place);
    WHEN 'number' THEN
        RETURN CASE
            WHEN scale(value::numeric) > 0
                THEN pgjobs_float_text(value::numeric)
            ELSE value::text
        END;
    ELSE
        RETURN value::text;
    END CASE;
END
$$;
