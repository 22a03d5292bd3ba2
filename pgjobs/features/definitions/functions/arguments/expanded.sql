-- Return the arguments of each job, where a parameter of write_all is "ALL"; else NULL.
CREATE OR REPLACE FUNCTION pgjobs_expanded(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS jsonb[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    all_values CONSTANT jsonb := definition.options -> 'write_all';
    expanded jsonb[];
    number numeric := 1;
    name text;
BEGIN
    FOR name IN
        SELECT * FROM jsonb_array_elements_text(definition.parameters -> 'x-order')
    LOOP
        CONTINUE WHEN NOT all_values ? name
            OR arguments -> name IS DISTINCT FROM '"ALL"';
        number := number * jsonb_array_length(all_values -> name);
        IF number > 10000 THEN
            RAISE EXCEPTION 'Invalid arguments for %: ALL: would be more than 10000 '
                'jobs at once.', definition.name
                USING ERRCODE = '22023', COLUMN = name;
        END IF;
        expanded := ARRAY(
            SELECT one || jsonb_build_object(name, choice)
            FROM unnest(coalesce(expanded, ARRAY[arguments]))
                WITH ORDINALITY AS job (one, place)
            CROSS JOIN jsonb_array_elements(all_values -> name)
                WITH ORDINALITY AS value (choice, position)
            ORDER BY place, position
        );
    END LOOP;
    RETURN expanded;
END
$$;
