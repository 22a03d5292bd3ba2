-- Return the unique key of a new job.
CREATE OR REPLACE FUNCTION pgjobs_unique_key(
    definition pgjobs_taskdefinition, arguments jsonb
) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    options CONSTANT jsonb := definition.options;
    key text;
BEGIN
    IF options ? 'unique_key' THEN
        RETURN pgjobs_filled_in(
            definition.name, 'unique_key', options -> 'unique_key', arguments
        );
    ELSIF jsonb_typeof(options -> 'unique') = 'array' THEN
        SELECT jsonb_object_agg(name, arguments -> name) INTO arguments
        FROM jsonb_array_elements_text(options -> 'unique') AS item (name);
    END IF;
    key := definition.name || ':' || pgjobs_json_text(arguments);
    IF length(key) <= 500 THEN
        RETURN key;
    END IF;
    RETURN definition.name || ':sha256:' || encode(
        sha256(convert_to(pgjobs_json_text(arguments), 'UTF8')), 'hex'
    );
END
$$;
