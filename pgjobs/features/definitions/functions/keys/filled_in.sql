-- Return the key that a template gives with these arguments.
CREATE OR REPLACE FUNCTION pgjobs_filled_in(
    task text, option text, template jsonb, arguments jsonb
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part jsonb;
    value jsonb;
    key text := '';
BEGIN
    IF template ? 'function' THEN
        RAISE EXCEPTION 'The % of % is a function of Python''s, %, which SQL cannot '
            'call.', option, task, template ->> 'function'
            USING ERRCODE = '0A000', COLUMN = option, HINT = CASE
                WHEN option IN ('lock', 'unique_key')
                    THEN format('Give it: %s => ''...''.', option)
                ELSE 'Declare a text such as ''client-{client_id}'', or enqueue in '
                    'Python.'
            END;
    END IF;
    FOR part IN SELECT * FROM jsonb_array_elements(template -> 'parts') LOOP
        key := key || (part ->> 0);
        CONTINUE WHEN part ->> 1 IS NULL;
        value := arguments -> (part ->> 1);
        IF value IS NULL THEN
            RAISE EXCEPTION 'Invalid arguments for %: %: needs the argument ''%''.',
                task, option, part ->> 1
                USING ERRCODE = '22023', COLUMN = part ->> 1;
        END IF;
        key := key || CASE jsonb_typeof(value)
            WHEN 'string' THEN value #>> '{}' ELSE pgjobs_json_text(value)
        END;
    END LOOP;
    RETURN pgjobs_checked_key(option, key);
END
$$;
