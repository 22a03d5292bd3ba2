-- Return whether an answer needs no look of the worker: code gave it, it has the form in which
-- it is stored, and the schema of what is asked says all that the task wants.
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
        WHERE way ->> 'kind' = 'answer'
            AND way ->> 'label' IS NOT DISTINCT FROM answer ->> 'label'
        LIMIT 1
    );
    IF schema IS NULL OR schema::text LIKE '%x-checked-by%' THEN
        RETURN false;
    END IF;
    SELECT * INTO checked FROM pgjobs_checked(schema, answer -> 'value');
    RETURN checked.fault IS NULL AND checked.stored = answer -> 'value';
END
$$;
