-- Return the definition of a task, by its name or one of its aliases.
CREATE OR REPLACE FUNCTION pgjobs_definition(task text) RETURNS pgjobs_taskdefinition
LANGUAGE plpgsql STABLE AS $$
DECLARE
    definition pgjobs_taskdefinition;
BEGIN
    IF task IS NULL THEN
        RAISE EXCEPTION 'The name of the task is NULL.'
            USING ERRCODE = '22004', COLUMN = 'task', HINT = pgjobs_known_tasks();
    END IF;
    SELECT * INTO definition FROM pgjobs_taskdefinition
    WHERE name = task AND gone_at IS NULL;
    IF NOT FOUND THEN
        SELECT * INTO definition FROM pgjobs_taskdefinition
        WHERE gone_at IS NULL AND options -> 'aliases' ? task;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'No task registered as ''%''.', task
            USING ERRCODE = '22023', COLUMN = 'task', HINT = pgjobs_known_tasks();
    END IF;
    RETURN definition;
END
$$;
