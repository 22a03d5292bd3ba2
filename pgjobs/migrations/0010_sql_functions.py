"""The functions by which SQL enqueues jobs, cancels and retries them.

A definition's JSON Schema (`schemas.py`) is all that they know of a task's parameters,
its options (`definitions.py`) all that they know of the rest. What they accept and
store is what Python's `enqueue` would: tests/test_sql_parity.py compares.

They run with the rights of who calls them, and nobody may call them unless it is
granted: see docs/sql.md. Errors of arguments have the SQLSTATE 22023 (of NULL: 22004)
and the parameter's name as the column of the error.
"""

from django.db import migrations

from ._postgresql import RunPostgreSQL

DEFINITIONS = (
    """
    CREATE FUNCTION pgjobs_definition(task text) RETURNS pgjobs_taskdefinition
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

    CREATE FUNCTION pgjobs_known_tasks() RETURNS text
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

    -- For people: what a schema takes, and what a task does.
    CREATE FUNCTION pgjobs_described(schema jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN CASE
            WHEN schema ? 'enum' THEN pgjobs_listed(schema -> 'enum')
            WHEN schema ? 'anyOf' THEN (
                SELECT string_agg(pgjobs_described(each), ' or ')
                FROM jsonb_array_elements(schema -> 'anyOf') AS item (each)
            )
            ELSE coalesce(schema ->> 'format', schema ->> 'type', 'any JSON')
        END;
    END
    $$;

    CREATE FUNCTION pgjobs_usage(parameters jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        RETURN 'It takes ' || coalesce(
            (
                SELECT string_agg(
                    format(
                        '%s (%s%s)', name,
                        pgjobs_described(parameters -> 'properties' -> name),
                        CASE
                            WHEN parameters -> 'required' ? name THEN ''
                            ELSE '; optional'
                        END
                    ),
                    ', ' ORDER BY place
                )
                FROM jsonb_array_elements_text(parameters -> 'x-order')
                    WITH ORDINALITY AS parameter (name, place)
            ),
            'no parameters'
        ) || CASE
            WHEN parameters -> 'additionalProperties' = 'false' THEN '.'
            ELSE ', and others by any name.'
        END;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_usage(jsonb);
    DROP FUNCTION pgjobs_described(jsonb);
    DROP FUNCTION pgjobs_known_tasks();
    DROP FUNCTION pgjobs_definition(text);
    """,
)

ARGUMENTS = (
    """
    -- The arguments as they are stored: checked, and the defaults filled in.
    CREATE FUNCTION pgjobs_checked_arguments(
        definition pgjobs_taskdefinition, arguments jsonb
    ) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        properties CONSTANT jsonb := definition.parameters -> 'properties';
        others CONSTANT jsonb := definition.parameters -> 'additionalProperties';
        most CONSTANT integer := definition.options -> 'max_argument_bytes';
        name text;
        schema jsonb;
        value jsonb;
        checked record;
        stored jsonb := '{}';
        faulty text[] := '{}';
        faults text[] := '{}';
        size integer;
    BEGIN
        FOR name, schema, value IN
            SELECT property.key, property.value, arguments -> property.key
            FROM jsonb_each(properties) AS property
            UNION ALL
            SELECT other.key, others, other.value FROM jsonb_each(arguments) AS other
            WHERE NOT properties ? other.key
        LOOP
            checked := pgjobs_checked_argument(schema, value);
            IF checked.fault IS NULL THEN
                stored := stored || jsonb_build_object(name, checked.stored);
            ELSE
                faulty := faulty || name;
                faults := faults || (name || ': ' || checked.fault);
            END IF;
        END LOOP;
        IF faults = '{}' THEN
            size := octet_length(stored::text) + 2;
            IF size > most THEN  -- written with spaces, and numbers without exponents
                size := octet_length(pgjobs_json_text(stored)) + 2;
            END IF;
            IF size <= most THEN
                RETURN stored;
            END IF;
            faulty := ARRAY['arguments'];
            faults := ARRAY[format(
                'arguments: are %s bytes of JSON, more than the %s that '
                'PGJOBS[''MAX_ARGUMENT_BYTES''] allows', size, most
            )];
        END IF;
        RAISE EXCEPTION 'Invalid arguments for %: %.', definition.name,
            array_to_string(faults, '; ')
            USING ERRCODE = '22023', COLUMN = faulty[1],
                HINT = pgjobs_usage(definition.parameters);
    END
    $$;

    CREATE FUNCTION pgjobs_checked_argument(
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

    -- The arguments of each job, where a parameter of write_all is "ALL"; else NULL.
    CREATE FUNCTION pgjobs_expanded(
        definition pgjobs_taskdefinition, arguments jsonb
    ) RETURNS jsonb[] LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        all_values CONSTANT jsonb := definition.options -> 'write_all';
        expanded jsonb[];
        number numeric := 1;
        name text;
    BEGIN
        FOR name IN
            SELECT * FROM jsonb_array_elements_text(definition.parameters -> 'x-order')
        LOOP
            CONTINUE WHEN NOT all_values ? name
                OR arguments -> name IS DISTINCT FROM '"ALL"';
            number := number * jsonb_array_length(all_values -> name);
            IF number > 10000 THEN
                RAISE EXCEPTION 'Invalid arguments for %: ALL: would be more than 10000 '
                    'jobs at once.', definition.name
                    USING ERRCODE = '22023', COLUMN = name;
            END IF;
            expanded := ARRAY(
                SELECT one || jsonb_build_object(name, choice)
                FROM unnest(coalesce(expanded, ARRAY[arguments]))
                    WITH ORDINALITY AS job (one, place)
                CROSS JOIN jsonb_array_elements(all_values -> name)
                    WITH ORDINALITY AS value (choice, position)
                ORDER BY place, position
            );
        END LOOP;
        RETURN expanded;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_expanded(pgjobs_taskdefinition, jsonb);
    DROP FUNCTION pgjobs_checked_argument(jsonb, jsonb);
    DROP FUNCTION pgjobs_checked_arguments(pgjobs_taskdefinition, jsonb);
    """,
)

# What holds a job back, and what it is unique by.
KEYS = (
    """
    CREATE FUNCTION pgjobs_checked_key(option text, key text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
    BEGIN
        IF length(key) NOT BETWEEN 1 AND 500 THEN
            RAISE EXCEPTION '%: must be 1 to 500 characters long, got %.',
                option, length(key)
                USING ERRCODE = '22023', COLUMN = option;
        END IF;
        RETURN key;
    END
    $$;

    CREATE FUNCTION pgjobs_filled_in(
        task text, option text, template jsonb, arguments jsonb
    ) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        part jsonb;
        value jsonb;
        key text := '';
    BEGIN
        IF template ? 'function' THEN
            RAISE EXCEPTION 'The % of % is a function of Python''s, %, which SQL cannot '
                'call.', option, task, template ->> 'function'
                USING ERRCODE = '0A000', COLUMN = option, HINT = CASE
                    WHEN option IN ('lock', 'unique_key')
                        THEN format('Give it: %s => ''...''.', option)
                    ELSE 'Declare a text such as ''client-{client_id}'', or enqueue in '
                        'Python.'
                END;
        END IF;
        FOR part IN SELECT * FROM jsonb_array_elements(template -> 'parts') LOOP
            key := key || (part ->> 0);
            CONTINUE WHEN part ->> 1 IS NULL;
            value := arguments -> (part ->> 1);
            IF value IS NULL THEN
                RAISE EXCEPTION 'Invalid arguments for %: %: needs the argument ''%''.',
                    task, option, part ->> 1
                    USING ERRCODE = '22023', COLUMN = part ->> 1;
            END IF;
            key := key || CASE jsonb_typeof(value)
                WHEN 'string' THEN value #>> '{}' ELSE pgjobs_json_text(value)
            END;
        END LOOP;
        RETURN pgjobs_checked_key(option, key);
    END
    $$;

    -- What goes into the column `keys`.
    CREATE FUNCTION pgjobs_keys(
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
        FOREACH option IN ARRAY ARRAY['lock', 'limit_key', 'rate_key'] LOOP
            CONTINUE WHEN jsonb_typeof(keys -> option) IS DISTINCT FROM 'object';
            keys := keys || jsonb_build_object(
                option,
                pgjobs_filled_in(definition.name, option, keys -> option, arguments)
            );
        END LOOP;
        RETURN keys;
    END
    $$;

    CREATE FUNCTION pgjobs_unique_key(
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
    """,
    """
    DROP FUNCTION pgjobs_unique_key(pgjobs_taskdefinition, jsonb);
    DROP FUNCTION pgjobs_keys(pgjobs_taskdefinition, jsonb, text);
    DROP FUNCTION pgjobs_filled_in(text, text, jsonb, jsonb);
    DROP FUNCTION pgjobs_checked_key(text, text);
    """,
)

# Insertion where another job may hold the unique key, as `models/unique.py` does it.
UNIQUE = (
    """
    -- What becomes of a job whose key is taken: the id of the one that there is instead;
    -- NULL: none (on_conflict = 'skip'); 0: nobody holds the key any more.
    CREATE FUNCTION pgjobs_conflict(job pgjobs_job, on_conflict text) RETURNS bigint
    LANGUAGE plpgsql AS $$
    DECLARE
        holder pgjobs_job;
    BEGIN
        IF job.unique_for = 'period' THEN
            UPDATE pgjobs_job SET unique_until = NULL  -- it is over
            WHERE unique_key = job.unique_key AND unique_for = 'period'
                AND pgjobs_holds_key(
                    unique_for, unique_until, status, attempts, finished_at
                )
                AND unique_until <= clock_timestamp();
        END IF;
        IF on_conflict = 'replace' THEN
            UPDATE pgjobs_job AS held
            SET args = '[]',
                kwargs = job.kwargs,
                keys = nullif(
                    coalesce(job.keys, '{}') - 'batch_id' || coalesce(
                        (
                            SELECT jsonb_object_agg(key, value)
                            FROM jsonb_each(held.keys)
                            WHERE key IN (
                                'after', 'after_batches', 'needs', 'batch_id',
                                'has_successors'
                            )
                        ),
                        '{}'
                    ),
                    '{}'
                ),
                dependencies = NULL,  -- a worker makes them
                run_after = job.run_after,
                expires_at = job.expires_at,
                status = CASE
                    WHEN job.run_after > statement_timestamp() THEN 'SCHEDULED'
                    ELSE 'READY'
                END,
                waiting_for = NULL,
                blocked_by_id = NULL
            WHERE held.unique_key = job.unique_key
                AND held.unique_for = job.unique_for
                AND pgjobs_holds_key(
                    held.unique_for, held.unique_until, held.status, held.attempts,
                    held.finished_at
                )
                AND held.status IN ('READY', 'SCHEDULED', 'WAITING')
                AND held.attempts = 0
            RETURNING * INTO holder;
            IF FOUND THEN
                DELETE FROM pgjobs_predecessor
                WHERE job_id = holder.id AND needs = 'dependency';
                PERFORM pg_notify('pgjobs', holder.queue_name);
                RETURN holder.id;
            END IF;
        END IF;
        SELECT * INTO holder FROM pgjobs_job
        WHERE unique_key = job.unique_key AND unique_for = job.unique_for
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            );
        IF NOT FOUND THEN
            RETURN 0;
        ELSIF on_conflict = 'raise' THEN
            RAISE EXCEPTION 'Job % (%) already holds the unique key ''%''.',
                holder.id, holder.task, holder.unique_key
                USING ERRCODE = '23505', COLUMN = 'unique_key';
        ELSIF on_conflict = 'replace' AND holder.attempts = 0
            AND holder.finished_at IS NULL
        THEN
            RETURN 0;  -- it came only after we had looked
        END IF;
        RETURN CASE WHEN on_conflict <> 'skip' THEN holder.id END;
    END
    $$;

    CREATE FUNCTION pgjobs_insert_unique(job pgjobs_job, on_conflict text)
    RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        inserted bigint;
    BEGIN
        LOOP
            INSERT INTO pgjobs_job
                (task, kwargs, queue_name, priority, run_after, expires_at,
                 max_attempts, max_crashes, timeout, process_units, keys, unique_key,
                 unique_for, unique_until)
            VALUES
                (job.task, job.kwargs, job.queue_name, job.priority, job.run_after,
                 job.expires_at, job.max_attempts, job.max_crashes, job.timeout,
                 job.process_units, job.keys, job.unique_key, job.unique_for,
                 job.unique_until)
            ON CONFLICT (unique_key, unique_for)
                WHERE unique_key IS NOT NULL
                    AND pgjobs_holds_key(
                        unique_for, unique_until, status, attempts, finished_at
                    )
                DO NOTHING
            RETURNING id INTO inserted;
            IF NOT FOUND THEN
                inserted := pgjobs_conflict(job, on_conflict);
            END IF;
            IF inserted IS DISTINCT FROM 0 THEN
                RETURN inserted;
            END IF;
        END LOOP;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_insert_unique(pgjobs_job, text);
    DROP FUNCTION pgjobs_conflict(pgjobs_job, text);
    """,
)

ENQUEUE = (
    """
    CREATE FUNCTION pgjobs_check_options(
        priority integer, queue_name text, run_after timestamptz
    ) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
    DECLARE
        option text;
        fault text;
    BEGIN
        IF priority NOT BETWEEN -100 AND 100 THEN
            option := 'priority';
            fault := format(
                'must be a whole number between -100 and 100, got %s', priority
            );
        ELSIF queue_name !~ '^[^,[:cntrl:]]{1,200}$' THEN
            option := 'queue_name';
            fault := format(
                'must be 1 to 200 characters without commas or control characters, '
                'got ''%s''', queue_name
            );
        ELSIF run_after < '1970-01-01 00:00+00' OR run_after >= '9999-01-01 00:00+00'
        THEN
            option := 'run_after';
            fault := format('must lie in the years 1970 to 9998, got %s', run_after);
        ELSE
            RETURN;
        END IF;
        RAISE EXCEPTION '% %.', option, fault
            USING ERRCODE = '22023', COLUMN = option,
                HINT = 'NULL leaves it as the task declares it.';
    END
    $$;

    CREATE FUNCTION pgjobs_enqueue(
        task text, arguments jsonb DEFAULT '{}',
        priority integer DEFAULT NULL, queue_name text DEFAULT NULL,
        run_after timestamptz DEFAULT NULL, unique_key text DEFAULT NULL,
        lock text DEFAULT NULL
    ) RETURNS TABLE (id bigint) LANGUAGE plpgsql ROWS 1 AS $$
    DECLARE
        definition pgjobs_taskdefinition := pgjobs_definition(task);
        options jsonb := definition.options;
        expanded jsonb[];
        batch jsonb;  -- what `keys` says of it
        job pgjobs_job;
    BEGIN
        IF jsonb_typeof(arguments) IS DISTINCT FROM 'object' THEN
            RAISE EXCEPTION 'Invalid arguments for %: arguments: must be a JSON object, '
                'got %.', definition.name, coalesce(pgjobs_shortened(arguments), 'NULL')
                USING ERRCODE = CASE
                        WHEN arguments IS NULL THEN '22004' ELSE '22023'
                    END,
                    COLUMN = 'arguments', HINT = pgjobs_usage(definition.parameters);
        END IF;
        PERFORM pgjobs_check_options(priority, queue_name, run_after);
        job.task := definition.name;
        job.queue_name := coalesce(queue_name, options ->> 'queue_name');
        job.priority := coalesce(priority, (options -> 'priority')::integer);
        job.run_after := run_after;
        job.expires_at := coalesce(run_after, statement_timestamp())
            + make_interval(secs => (options -> 'expires')::double precision);
        job.max_attempts := options -> 'max_attempts';
        job.max_crashes := options -> 'max_crashes';
        job.timeout := options -> 'timeout';
        job.process_units := options -> 'process_units';
        IF options ? 'write_all' THEN
            expanded := pgjobs_expanded(definition, arguments);
            IF expanded IS NOT NULL THEN
                INSERT INTO pgjobs_batch AS new (description) VALUES (definition.name)
                RETURNING jsonb_build_object('batch_id', new.id) INTO batch;
            END IF;
        END IF;
        FOREACH arguments IN ARRAY coalesce(expanded, ARRAY[arguments]) LOOP
            job.kwargs := pgjobs_checked_arguments(definition, arguments);
            job.keys := batch;
            IF lock IS NOT NULL OR options ? 'keys' THEN
                job.keys := coalesce(batch, '{}')
                    || pgjobs_keys(definition, job.kwargs, lock);
            END IF;
            IF unique_key IS NOT NULL OR options ? 'on_conflict' THEN
                job.unique_key := coalesce(
                    pgjobs_checked_key('unique_key', unique_key),
                    pgjobs_unique_key(definition, job.kwargs)
                );
                job.unique_for := coalesce(options ->> 'unique_for', 'unfinished');
                job.unique_until := statement_timestamp() + make_interval(
                    secs => (options -> 'unique_period')::double precision
                );
                id := pgjobs_insert_unique(
                    job, coalesce(options ->> 'on_conflict', 'return')
                );
                CONTINUE WHEN id IS NULL;
            ELSE
                INSERT INTO pgjobs_job AS new
                    (task, kwargs, queue_name, priority, run_after, expires_at,
                     max_attempts, max_crashes, timeout, process_units, keys)
                VALUES
                    (job.task, job.kwargs, job.queue_name, job.priority, job.run_after,
                     job.expires_at, job.max_attempts, job.max_crashes, job.timeout,
                     job.process_units, job.keys)
                RETURNING new.id INTO id;
            END IF;
            RETURN NEXT;
        END LOOP;
    END
    $$;

    CREATE PROCEDURE pgjobs_insert_job(
        type_key text, task_key text, priority integer, arguments json
    ) LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pgjobs_enqueue(
            type_key || '.' || task_key, arguments::jsonb, priority => priority
        );
    END
    $$;
    """,
    """
    DROP PROCEDURE pgjobs_insert_job(text, text, integer, json);
    DROP FUNCTION pgjobs_enqueue(
        text, jsonb, integer, text, timestamptz, text, text
    );
    DROP FUNCTION pgjobs_check_options(integer, text, timestamptz);
    """,
)

# The acts of sql/cancel.sql and sql/retry.sql on one job.
ACTS = (
    """
    CREATE FUNCTION pgjobs_cancel(id bigint, reason text DEFAULT NULL)
    RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        cancelled pgjobs_job;
    BEGIN
        UPDATE pgjobs_job AS job
        SET status = CASE
                WHEN status = 'RUNNING' THEN status ELSE 'CANCELLED'
            END,
            finished_at = CASE WHEN status <> 'RUNNING' THEN clock_timestamp() END,
            cancel_requested_at = CASE
                WHEN status = 'RUNNING' THEN clock_timestamp()
            END,
            reason = coalesce(
                nullif(left(pgjobs_cancel.reason, 1000), ''), 'Cancelled.'
            ),
            waiting_for = NULL,
            blocked_by_id = NULL
        WHERE job.id = pgjobs_cancel.id
            AND (
                status IN ('READY', 'SCHEDULED', 'WAITING')
                OR status = 'RUNNING' AND cancel_requested_at IS NULL
            )
        RETURNING * INTO cancelled;
        IF cancelled.worker_id IS NOT NULL THEN
            PERFORM pg_notify('pgjobs_worker_' || cancelled.worker_id, 'cancel');
        END IF;
        RETURN cancelled.id IS NOT NULL;
    END
    $$;

    -- These jobs have just been retried, by SQL or Python. They wait anew for those of
    -- their predecessors that have not ended. Others that were cancelled because of them,
    -- and because of those, wait again, too. They take up their unique keys, unless
    -- another job holds them.
    CREATE FUNCTION pgjobs_revive(ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        WITH RECURSIVE lost (id, batch_id) AS (
            SELECT id, batch_id FROM pgjobs_job WHERE id = ANY (ids)
            UNION
            SELECT job.id, job.batch_id
            FROM lost
            CROSS JOIN LATERAL (
                SELECT job_id FROM pgjobs_predecessor WHERE predecessor_id = lost.id
                UNION ALL
                SELECT job_id FROM pgjobs_predecessor WHERE batch_id = lost.batch_id
            ) AS link
            JOIN pgjobs_job AS job ON job.id = link.job_id
            WHERE job.status = 'CANCELLED' AND job.blocked_by_id = lost.id
        ),
        cancelled AS MATERIALIZED (
            SELECT id, unique_for,
                CASE
                    WHEN unique_for <> 'period' OR unique_until > clock_timestamp()
                        THEN unique_key
                END AS wanted_key
            FROM pgjobs_job
            WHERE id = ANY (ARRAY(SELECT id FROM lost)) AND status = 'CANCELLED'
            ORDER BY id
            FOR NO KEY UPDATE
        ),
        ranked AS (
            SELECT *, row_number() OVER (
                PARTITION BY wanted_key, unique_for ORDER BY id DESC
            ) AS place
            FROM cancelled
        ),
        allowed AS MATERIALIZED (
            SELECT id FROM ranked
            WHERE wanted_key IS NULL
                OR place = 1 AND NOT EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.unique_key = wanted_key
                        AND other.unique_for = ranked.unique_for
                        AND pgjobs_holds_key(
                            other.unique_for, other.unique_until, other.status,
                            other.attempts, other.finished_at
                        )
                )
        ),
        -- What had ended for a job before is looked at anew by the next admission.
        opened AS (
            UPDATE pgjobs_predecessor SET is_open = true
            WHERE job_id = ANY (ARRAY(SELECT id FROM allowed))
        ),
        linked AS (
            UPDATE pgjobs_predecessor AS link
            SET is_open = EXISTS (
                    SELECT FROM pgjobs_job
                    WHERE id = link.predecessor_id
                        AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                ) OR EXISTS (
                    SELECT FROM pgjobs_job
                    WHERE batch_id = link.batch_id
                        AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                )
            WHERE job_id = ANY (ids)
            RETURNING job_id, is_open
        )
        UPDATE pgjobs_job
        SET status = 'WAITING',
            waiting_for = 'predecessor',
            finished_at = NULL,
            expires_at = NULL,
            reason = '',
            unique_until = CASE WHEN unique_until > clock_timestamp() THEN unique_until END
        WHERE id = ANY (ARRAY(SELECT id FROM allowed))
            OR id = ANY (ARRAY(SELECT job_id FROM linked WHERE is_open)) AND status = 'READY';
    END
    $$;

    CREATE FUNCTION pgjobs_retry(id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
    DECLARE
        retried pgjobs_job;
    BEGIN
        LOOP
            BEGIN
                UPDATE pgjobs_job AS job
                SET status = CASE
                        WHEN run_after > clock_timestamp() THEN 'SCHEDULED'
                        ELSE 'READY'
                    END,
                    life = life + 1,
                    attempts = 0, failures = 0, crashes = 0,
                    started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
                    expires_at = NULL, cancel_requested_at = NULL, return_value = NULL,
                    reason = '', blocked_by_id = NULL,
                    unique_until = CASE
                        WHEN unique_until > clock_timestamp() THEN unique_until
                    END
                WHERE job.id = pgjobs_retry.id
                    AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
                    AND NOT EXISTS (
                        SELECT FROM pgjobs_job AS other
                        WHERE other.unique_key = job.unique_key
                            AND other.unique_for = job.unique_for
                            AND pgjobs_holds_key(
                                other.unique_for, other.unique_until, other.status,
                                other.attempts, other.finished_at
                            )
                            AND other.id <> job.id
                            AND (
                                job.unique_for <> 'period'
                                OR job.unique_until > clock_timestamp()
                            )
                    )
                RETURNING * INTO retried;
                DELETE FROM pgjobs_progress WHERE job_id = retried.id;
                IF retried.id IS NOT NULL THEN
                    PERFORM pgjobs_revive(ARRAY[retried.id]);
                END IF;
                RETURN retried.id IS NOT NULL;
            EXCEPTION WHEN unique_violation THEN
                -- Another job was faster, which the next look sees.
                IF current_setting('transaction_isolation') <> 'read committed' THEN
                    RAISE;
                END IF;
            END;
        END LOOP;
    END
    $$;

    CREATE FUNCTION pgjobs_job_status(id bigint) RETURNS text
    LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN status FROM pgjobs_job AS job WHERE job.id = pgjobs_job_status.id;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_job_status(bigint);
    DROP FUNCTION pgjobs_retry(bigint);
    DROP FUNCTION pgjobs_revive(bigint[]);
    DROP FUNCTION pgjobs_cancel(bigint, text);
    """,
)

# Names mean our tables in what people call, whatever their search_path says; and only
# those may call it who were told they may.
RIGHTS = (
    """
    DO $$
    DECLARE
        doors CONSTANT text[] := ARRAY[
            'pgjobs_enqueue', 'pgjobs_insert_job', 'pgjobs_cancel', 'pgjobs_retry',
            'pgjobs_job_status'
        ];
        helpers CONSTANT text[] := ARRAY[
            'pgjobs_float_text', 'pgjobs_json_text', 'pgjobs_json_fault',
            'pgjobs_fits_float', 'pgjobs_shortened', 'pgjobs_is_date', 'pgjobs_date',
            'pgjobs_date_time', 'pgjobs_time', 'pgjobs_decimal',
            'pgjobs_decimal_number', 'pgjobs_uuid', 'pgjobs_checked', 'pgjobs_choice',
            'pgjobs_listed', 'pgjobs_checked_by_any', 'pgjobs_formatted',
            'pgjobs_checked_array', 'pgjobs_checked_object', 'pgjobs_limit_fault',
            'pgjobs_definition', 'pgjobs_known_tasks', 'pgjobs_described',
            'pgjobs_usage', 'pgjobs_checked_argument', 'pgjobs_checked_arguments',
            'pgjobs_expanded', 'pgjobs_checked_key', 'pgjobs_filled_in', 'pgjobs_keys',
            'pgjobs_unique_key', 'pgjobs_conflict', 'pgjobs_insert_unique',
            'pgjobs_check_options'
        ];
        routine record;
    BEGIN
        FOR routine IN
            SELECT oid::regprocedure AS name, proname = ANY (doors) AS is_door
            FROM pg_proc
            WHERE pronamespace = current_schema()::regnamespace
                AND proname = ANY (doors || helpers)
        LOOP
            EXECUTE format('REVOKE ALL ON ROUTINE %s FROM PUBLIC', routine.name);
            IF routine.is_door THEN
                EXECUTE format(
                    'ALTER ROUTINE %s SET search_path = pg_catalog, %I, pg_temp',
                    routine.name, current_schema()
                );
            END IF;
        END LOOP;
    END
    $$;
    """,
    migrations.RunSQL.noop,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0009_task_definitions")]

    operations = [
        RunPostgreSQL(forwards, backwards)
        for forwards, backwards in (
            DEFINITIONS,
            ARGUMENTS,
            KEYS,
            UNIQUE,
            ENQUEUE,
            ACTS,
            RIGHTS,
        )
    ]
