-- Enqueue a job whose task is unknown, or refuses these arguments, so that a worker fails
-- it with the reason. It has all that the definition says of it: the task may be gone
-- for the time of a deploy, and the job must not run without its keys then.
CREATE OR REPLACE FUNCTION pgjobs_enqueue_refused(
    task text, arguments jsonb, meta jsonb
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    definition pgjobs_taskdefinition;
    options jsonb;
    job pgjobs_job;
BEGIN
    SELECT * INTO definition FROM pgjobs_taskdefinition AS known
    WHERE name = task OR known.options -> 'aliases' ? task
    ORDER BY gone_at IS NULL DESC, name = task DESC, gone_at DESC
    LIMIT 1;
    IF NOT FOUND THEN
        INSERT INTO pgjobs_job (task, kwargs, meta) VALUES (task, arguments, meta);
        RETURN;
    END IF;
    options := definition.options;
    IF definition.gone_at IS NOT NULL THEN
        BEGIN
            arguments := pgjobs_checked_arguments(definition, arguments);
        EXCEPTION WHEN data_exception THEN
            NULL;  -- they are stored as they are, and a worker says so
        END;
    END IF;
    job := jsonb_populate_record(
        job, options - '{dependencies, keys, unique_for, unique_key}'::text[]
    );
    job.task := task;
    job.args := '[]';
    job.kwargs := arguments;
    job.meta := meta;
    job.expires_at := statement_timestamp()
        + make_interval(secs => (options -> 'expires')::double precision);
    IF options ? 'keys' THEN
        job.keys := pgjobs_keys(definition, arguments, NULL);
    END IF;
    IF options ? 'on_conflict' THEN
        job.unique_key := pgjobs_unique_key(definition, arguments);
        job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
        job.unique_until := statement_timestamp() + make_interval(
            secs => (options -> 'unique_period')::double precision
        );
    END IF;
    PERFORM pgjobs_insert(job, coalesce(options ->> 'on_conflict', 'return'));
END
$$;
