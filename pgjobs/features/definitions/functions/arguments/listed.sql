-- Return choices as an error message lists them.
CREATE OR REPLACE FUNCTION pgjobs_listed(choices jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    words text[] := ARRAY(
        SELECT CASE jsonb_typeof(choice)
            WHEN 'string' THEN '''' || (choice #>> '{}') || ''''
            WHEN 'null' THEN 'None'
            WHEN 'boolean' THEN initcap(choice::text)
            ELSE choice::text
        END
        FROM jsonb_array_elements(choices) AS item (choice)
    );
    last text := words[cardinality(words)];
BEGIN
    RETURN CASE
        WHEN cardinality(words) = 1 THEN last
        ELSE array_to_string(trim_array(words, 1), ', ') || ' or ' || last
    END;
END
$$;
