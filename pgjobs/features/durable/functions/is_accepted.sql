-- Return whether an answer needs no look of the worker: code gave it, it has the form in which
-- it is stored, and the task asks for a plain type, such as bool or str. Other types may
-- have validators of the project.
CREATE OR REPLACE FUNCTION pgjobs_is_accepted(answer jsonb, ways jsonb)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    schema jsonb;
    checked record;
BEGIN
    IF answer ->> 'answered_by' IS NOT NULL THEN
        RETURN false;
    END IF;
    schema := (
        SELECT way -> 'asked' -> 'schema' FROM jsonb_array_elements(ways) AS way
        WHERE way ->> 'kind' = 'answer' AND way -> 'asked' -> 'is_plain' = 'true'
            AND way ->> 'label' IS NOT DISTINCT FROM answer ->> 'label'
        LIMIT 1
    );
    IF schema IS NULL THEN
        RETURN false;
    END IF;
    SELECT * INTO checked FROM pgjobs_checked(schema, answer -> 'value');
    RETURN checked.fault IS NULL AND checked.stored = answer -> 'value';
END
$$;
