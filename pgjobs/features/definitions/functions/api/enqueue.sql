-- Enqueue a job by SQL, as Python's `enqueue` would: see docs/sql.md. The task's
-- options come from its stored definition (`definitions.py`), and its parameters from
-- the JSON Schema in that (`schemas.py`).
--
-- This and the other functions for producers run with the rights of their caller.
-- Errors about arguments have the SQLSTATE 22023 (22004 for NULL), and the parameter's
-- name as the column of the error. Names mean our tables, whatever the caller's
-- search_path is.
CREATE OR REPLACE FUNCTION pgjobs_enqueue(
    task text, arguments jsonb DEFAULT '{}',
    priority integer DEFAULT NULL, queue_name text DEFAULT NULL,
    run_after timestamptz DEFAULT NULL, unique_key text DEFAULT NULL,
    lock text DEFAULT NULL, meta jsonb DEFAULT NULL, keep text DEFAULT NULL
) RETURNS TABLE (id bigint) LANGUAGE plpgsql ROWS 1
SET search_path FROM CURRENT
AS $$
DECLARE
    definition pgjobs_taskdefinition := pgjobs_definition(task);
    options jsonb := definition.options;
    expanded jsonb[];
    batch jsonb;  -- what `keys` says of it
    job pgjobs_job;
BEGIN
    IF options ? 'encrypted' THEN
        RAISE EXCEPTION 'SQL cannot enqueue %: its arguments are encrypted.',
            definition.name
            USING ERRCODE = '0A000', COLUMN = 'task', HINT = 'Enqueue it from Python, '
                'which has a key. Or enqueue a task that gets an id, and enqueues it.';
    END IF;
    IF jsonb_typeof(arguments) IS DISTINCT FROM 'object' THEN
        RAISE EXCEPTION 'Invalid arguments for %: arguments: must be a JSON object, '
            'got %.', definition.name, coalesce(pgjobs_shortened(arguments), 'NULL')
            USING ERRCODE = CASE
                    WHEN arguments IS NULL THEN '22004' ELSE '22023'
                END,
                COLUMN = 'arguments', HINT = pgjobs_usage(definition.parameters);
    END IF;
    PERFORM pgjobs_check_options(priority, queue_name, run_after, keep),
        pgjobs_check_meta(meta);
    -- Options with the name of a column are its value, but for those that depend on the
    -- arguments.
    job := jsonb_populate_record(
        job, options - '{dependencies, keys, unique_for, unique_key}'::text[]
    );
    job.args := '[]';
    job.meta := meta;
    job.task := definition.name;
    job.queue_name := coalesce(queue_name, job.queue_name);
    job.priority := coalesce(priority, job.priority);
    job.keep := coalesce(keep, job.keep);
    job.run_after := run_after;
    job.expires_at := coalesce(run_after, statement_timestamp())
        + make_interval(secs => (options -> 'expires')::double precision);
    IF options ? 'write_all' THEN
        expanded := pgjobs_expanded(definition, arguments);
        IF expanded IS NOT NULL THEN
            INSERT INTO pgjobs_batch AS new (description) VALUES (definition.name)
            RETURNING jsonb_build_object('batch_id', new.id) INTO batch;
        END IF;
    END IF;
    FOREACH arguments IN ARRAY coalesce(expanded, ARRAY[arguments]) LOOP
        job.kwargs := pgjobs_checked_arguments(definition, arguments);
        IF lock IS NOT NULL OR unique_key IS NOT NULL OR options ?| '{keys, on_conflict}'
        THEN
            arguments := pgjobs_key_form(definition.parameters, job.kwargs);
        END IF;
        job.keys := batch;
        IF lock IS NOT NULL OR options ? 'keys' THEN
            job.keys := coalesce(batch, '{}')
                || pgjobs_keys(definition, arguments, lock);
        END IF;
        IF unique_key IS NOT NULL OR options ? 'on_conflict' THEN
            job.unique_key := coalesce(
                pgjobs_checked_key('unique_key', unique_key),
                pgjobs_unique_key(definition, arguments)
            );
            job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
            job.unique_until := statement_timestamp() + make_interval(
                secs => (options -> 'unique_period')::double precision
            );
        END IF;
        id := pgjobs_insert(job, coalesce(options ->> 'on_conflict', 'return'));
        CONTINUE WHEN id IS NULL;
        RETURN NEXT;
    END LOOP;
END
$$;
