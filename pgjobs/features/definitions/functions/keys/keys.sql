-- Return the column `keys` of a new job, by its definition and the given lock.
CREATE OR REPLACE FUNCTION pgjobs_keys(
    definition pgjobs_taskdefinition, arguments jsonb, lock text
) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    keys jsonb := definition.options -> 'keys';
    option text;
BEGIN
    IF lock IS NOT NULL THEN
        keys := coalesce(keys, '{}') || jsonb_build_object(
            'lock', pgjobs_checked_key('lock', lock),
            'is_ordered', definition.options ->> 'lock_mode' = 'ordered'
        );
    END IF;
    FOR option IN
        SELECT key FROM jsonb_each(keys) WHERE jsonb_typeof(value) = 'object'
    LOOP
        keys := keys || jsonb_build_object(
            option,
            pgjobs_filled_in(definition.name, option, keys -> option, arguments)
        );
    END LOOP;
    RETURN keys;
END
$$;
