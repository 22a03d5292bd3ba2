-- Check a member of an object by its schema; a missing one has its default, if there is
-- one.
CREATE OR REPLACE FUNCTION pgjobs_checked_member(
    schema jsonb, value jsonb, is_required boolean, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF value IS NULL THEN
        stored := schema -> 'default';
        IF stored IS NULL AND is_required THEN
            fault := 'is missing';
        END IF;
    ELSIF schema = 'false' THEN
        fault := 'is no parameter of this task';
    ELSE
        SELECT * INTO stored, fault FROM pgjobs_checked(schema, value);
    END IF;
END
$$;
