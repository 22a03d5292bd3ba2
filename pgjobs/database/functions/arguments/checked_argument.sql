-- Check one argument by its schema; a missing one has its default, if there is one.
CREATE OR REPLACE FUNCTION pgjobs_checked_argument(
    schema jsonb, value jsonb, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    checked record;
BEGIN
    IF value IS NULL THEN
        stored := schema -> 'default';
        IF stored IS NULL THEN
            fault := 'is missing';
        END IF;
    ELSIF schema = 'false' THEN
        fault := 'is no parameter of this task';
    ELSE
        checked := pgjobs_checked(schema, value);
        stored := checked.stored;
        fault := checked.fault;
        IF fault IS NULL
            AND jsonb_typeof(value) NOT IN ('string', 'boolean', 'null')
        THEN
            fault := pgjobs_json_fault(value, 0);
        END IF;
    END IF;
END
$$;
