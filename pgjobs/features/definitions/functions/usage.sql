-- Return which parameters a task takes, in words for people.
CREATE OR REPLACE FUNCTION pgjobs_usage(parameters jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN 'It takes ' || coalesce(
        (
            SELECT string_agg(
                format(
                    '%s (%s%s)', name,
                    pgjobs_described(parameters -> 'properties' -> name),
                    CASE
                        WHEN parameters -> 'required' ? name THEN ''
                        ELSE '; optional'
                    END
                ),
                ', ' ORDER BY place
            )
            FROM jsonb_array_elements_text(parameters -> 'x-order')
                WITH ORDINALITY AS parameter (name, place)
        ),
        'no parameters'
    ) || CASE
        WHEN parameters -> 'additionalProperties' = 'false' THEN '.'
        ELSE ', and others by any name.'
    END;
END
$$;
