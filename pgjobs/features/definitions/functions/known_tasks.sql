-- Return the names of the tasks, as a hint for people.
CREATE OR REPLACE FUNCTION pgjobs_known_tasks() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
    names text[] := ARRAY(
        SELECT name FROM pgjobs_taskdefinition WHERE gone_at IS NULL
        ORDER BY name LIMIT 21
    );
BEGIN
    RETURN CASE cardinality(names)
        WHEN 0 THEN 'There is none yet: run manage.py synctasks.'
        WHEN 21 THEN 'There are ' || array_to_string(names[:20], ', ') || ', ...'
        ELSE 'There are ' || array_to_string(names, ', ') || '.'
    END;
END
$$;
