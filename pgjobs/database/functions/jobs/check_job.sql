-- Refuse a row that cannot be a job. This checks the columns that neither a claim nor a
-- success changes; constraints/is_job.sql checks the others. PostgreSQL would call the
-- function of a constraint for each version of a row. This trigger does not fire for
-- the two statements that make most versions.
CREATE OR REPLACE FUNCTION pgjobs_check_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN jsonb_typeof(NEW.args) <> 'array' THEN 'args must be an array'
        WHEN jsonb_typeof(NEW.kwargs) <> 'object' THEN 'kwargs must be an object'
        WHEN length(NEW.task) NOT BETWEEN 1 AND 200
            THEN 'task must be 1 to 200 characters'
        WHEN jsonb_typeof(NEW.meta) <> 'object' OR octet_length(NEW.meta::text) > 4000
            THEN 'meta must be an object of no more than 4000 bytes of JSON'
        WHEN NEW.status = 'RUNNING' AND TG_OP = 'INSERT'
            THEN 'none is inserted as RUNNING, only workers make jobs run'
        WHEN NEW.priority NOT BETWEEN -100 AND 100
            THEN 'priority must be from -100 to 100'
        -- NaN and infinity are larger than anything.
        WHEN NEW.timeout <= 0 OR NEW.timeout > 3153600000
            THEN 'timeout must be positive, and no more than 100 years'
        -- Addresses have no sign.
        WHEN NEW.id < 1 THEN 'id must be at least 1'
        WHEN NEW.keep NOT IN ('all', 'failed', 'worker')
            THEN 'keep must be all, failed or worker'
        WHEN NEW.process_units < 1 THEN 'process_units must be at least 1'
        WHEN least(NEW.max_attempts, NEW.max_crashes) < 1
            THEN 'max_attempts and max_crashes must be at least 1'
        WHEN NEW.life NOT BETWEEN 1 AND 1000000000
            THEN 'life can only rise, from 1 to 1000000000'
        WHEN least(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) < '1970-01-01 00:00+00'
            OR greatest(
                NEW.run_after, NEW.expires_at, NEW.enqueued_at,
                NEW.cancel_requested_at
            ) >= '9999-01-01 00:00+00'
            THEN 'all times must be from 1970 to 9998'
    END;
BEGIN
    -- Most jobs have nothing of what follows. One question costs less than one for each
    -- part, because PostgreSQL prepares an expression once in each transaction that comes
    -- to it.
    IF fault IS NULL AND NEW.queue_name = 'default'
        AND num_nonnulls(
            NEW.unique_key, NEW.unique_for, NEW.unique_until, NEW.keys, NEW.dependencies
        ) = 0
        AND greatest(pg_column_size(NEW.args), pg_column_size(NEW.kwargs)) <= 2000
    THEN
        RETURN NULL;
    END IF;
    IF pg_column_size(NEW.kwargs) > 2000 OR pg_column_size(NEW.args) > 2000 THEN
        -- A worker's statement has a largest size.
        IF octet_length(NEW.args::text) + octet_length(NEW.kwargs::text) > 50000000 THEN
            fault := 'args and kwargs must be no more than 50 MB of JSON';
        END IF;
    END IF;
    IF fault IS NULL AND NEW.queue_name <> 'default' THEN
        IF length(NEW.queue_name) > 200 OR NEW.queue_name
            !~ '^[^ ,[:cntrl:]]([^,[:cntrl:]]*[^ ,[:cntrl:]])?$'
        THEN
            fault := 'queue_name must be 1 to 200 characters, without commas and '
                'control characters, and not begin or end with a space';
        END IF;
    END IF;
    IF fault IS NULL
        AND num_nonnulls(NEW.unique_key, NEW.unique_for, NEW.unique_until) > 0
    THEN
        fault := CASE
            WHEN length(NEW.unique_key) NOT BETWEEN 1 AND 500
                THEN 'unique_key must be 1 to 500 characters'
            WHEN num_nonnulls(NEW.unique_key, NEW.unique_for) = 1
                THEN 'unique_key and unique_for belong together'
            WHEN NEW.unique_for NOT IN ('unfinished', 'waiting', 'period')
                THEN 'unique_for must be unfinished, waiting or period'
            WHEN NEW.unique_until IS NOT NULL
                AND NEW.unique_for IS DISTINCT FROM 'period'
                THEN 'unique_until needs unique_for = period'
        END;
    END IF;
    -- These call no function of ours by a bare name: the search path is
    -- that of the statement that writes the job.
    IF fault IS NULL AND NEW.keys IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.keys) <> 'object' THEN 'keys must be an object'
            WHEN pg_column_size(NEW.keys) > 1900
                AND octet_length(NEW.keys::text) > 200000
                THEN 'keys must be no more than 200 kB of JSON'
            WHEN jsonb_typeof(NEW.keys -> 'lock') <> 'string'
                OR length(NEW.keys ->> 'lock') NOT BETWEEN 1 AND 500
                THEN 'keys: lock must be a text of 1 to 500 characters'
        END;
        -- Many jobs with keys have only a lock. Each question takes time for each row.
        IF fault IS NULL AND NEW.keys ?| ARRAY[
            'is_ordered', 'on_success', 'on_failure', 'limit_key', 'max_running',
            'rate_key', 'rate_interval', 'rate_burst', 'after', 'after_batches',
            'needs', 'batch_id', 'results', 'masked', 'chunk_by', 'chunk_wait'
        ] THEN
            fault := CASE
                WHEN jsonb_typeof(NEW.keys -> 'is_ordered') <> 'boolean'
                    THEN 'keys: is_ordered must be true or false'
                -- Nothing else may keep the job's end from being stored.
                WHEN length(NEW.keys ->> 'on_success') NOT BETWEEN 1 AND 200
                    OR length(NEW.keys ->> 'on_failure') NOT BETWEEN 1 AND 200
                    THEN 'keys: on_success and on_failure must be names of tasks'
                WHEN jsonb_typeof(NEW.keys -> 'masked') <> 'array'
                    THEN 'keys: masked must be a list of names of arguments'
                WHEN jsonb_typeof(NEW.keys -> 'chunk_by') <> 'array'
                    THEN 'keys: chunk_by must be a list of names of arguments'
                WHEN jsonb_typeof(NEW.keys -> 'chunk_wait') <> 'number'
                    OR (NEW.keys ->> 'chunk_wait')::numeric NOT BETWEEN 0 AND 86400
                    THEN 'keys: chunk_wait must be seconds, at most a day'
            END;
            IF fault IS NULL AND NEW.keys ? 'results' THEN
                EXECUTE pg_catalog.format(
                    'SELECT %I.pgjobs_fault_of_results($1)', TG_TABLE_SCHEMA
                ) INTO fault USING NEW.keys;
            END IF;
            IF fault IS NULL AND NEW.keys ?| ARRAY['limit_key', 'max_running'] THEN
                fault := CASE
                    WHEN NOT NEW.keys ?& ARRAY['limit_key', 'max_running']
                        THEN 'keys: limit_key and max_running belong together'
                    WHEN jsonb_typeof(NEW.keys -> 'limit_key') <> 'string'
                        OR length(NEW.keys ->> 'limit_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: limit_key must be a text of 1 to 500 characters'
                    WHEN jsonb_typeof(NEW.keys -> 'max_running') <> 'number'
                        THEN 'keys: max_running must be a whole number from 1'
                    WHEN (NEW.keys -> 'max_running')::numeric
                            NOT BETWEEN 1 AND 2147483647
                        OR scale((NEW.keys -> 'max_running')::numeric) > 0
                        THEN 'keys: max_running must be a whole number from 1'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['rate_key', 'rate_interval', 'rate_burst']
            THEN
                fault := CASE
                    WHEN NOT NEW.keys
                            ?& ARRAY['rate_key', 'rate_interval', 'rate_burst']
                        THEN 'keys: rate_key, rate_interval and rate_burst belong '
                            'together'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_key') <> 'string'
                        OR length(NEW.keys ->> 'rate_key') NOT BETWEEN 1 AND 500
                        THEN 'keys: rate_key must be a text of 1 to 500 characters'
                    WHEN (NEW.keys -> 'rate_burst')::text !~ '^[1-9][0-9]{0,9}$'
                        OR (NEW.keys -> 'rate_burst')::bigint > 2147483647
                        THEN 'keys: rate_burst must be a whole number from 1'
                    WHEN jsonb_typeof(NEW.keys -> 'rate_interval') <> 'number'
                        OR (NEW.keys -> 'rate_interval')::numeric < 1e-100
                        OR (NEW.keys -> 'rate_interval')::numeric
                            * (NEW.keys -> 'rate_burst')::numeric > 3153600000
                        THEN 'keys: rate_interval must be positive, and a burst last '
                            '100 years at most'
                END;
            END IF;
            IF fault IS NULL
                AND NEW.keys ?| ARRAY['after', 'after_batches', 'needs', 'batch_id']
            THEN
                fault := CASE
                    WHEN jsonb_typeof(NEW.keys -> 'needs') <> 'string'
                        OR NEW.keys ->> 'needs' NOT IN ('success', 'end', 'failure')
                        THEN 'keys: needs must be success, end or failure'
                    WHEN (NEW.keys -> 'batch_id')::text !~ '^[1-9][0-9]{0,17}$'
                        THEN 'keys: batch_id must be an id'
                    WHEN jsonb_typeof(NEW.keys -> 'after') <> 'array'
                        OR jsonb_typeof(NEW.keys -> 'after_batches') <> 'array'
                        OR EXISTS (
                            SELECT FROM jsonb_array_elements(
                                coalesce(NEW.keys -> 'after', '[]')
                                    || coalesce(NEW.keys -> 'after_batches', '[]')
                            ) AS item (id)
                            WHERE id::text !~ '^[1-9][0-9]{0,17}$'
                        )
                        THEN 'keys: after and after_batches must be arrays of ids'
                    -- So predecessors cannot form a circle.
                    WHEN jsonb_path_exists(
                        NEW.keys, '$.after[*] ? (@ >= $id)',
                        jsonb_build_object('id', NEW.id)
                    )
                        THEN 'keys: after can only name jobs that were enqueued before'
                END;
            END IF;
        END IF;
    END IF;
    IF fault IS NULL AND NEW.dependencies IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.dependencies -> 'needs') IS DISTINCT FROM 'array'
                OR jsonb_typeof(NEW.dependencies -> 'provides')
                    IS DISTINCT FROM 'array'
                OR pg_column_size(NEW.dependencies) > 1900
                AND octet_length(NEW.dependencies::text) > 200000
                OR EXISTS (
                    SELECT FROM (
                        SELECT each, each -> 'within'
                        FROM jsonb_array_elements(NEW.dependencies -> 'needs') AS each
                        UNION ALL
                        SELECT each, each -> 'for'
                        FROM jsonb_array_elements(
                            NEW.dependencies -> 'provides'
                        ) AS each
                    ) AS item (each, seconds)
                    WHERE jsonb_typeof(each -> 'key') IS DISTINCT FROM 'string'
                        OR length(each ->> 'key') NOT BETWEEN 1 AND 500
                        OR jsonb_typeof(seconds) IS DISTINCT FROM 'number'
                        OR seconds <> '0'
                        AND seconds::numeric NOT BETWEEN 1e-100 AND 3153600000
                )
                THEN 'dependencies must be {"needs": [{"key": ..., "within": ...}], '
                    '"provides": [{"key": ..., "for": ...}]}'
        END;
        IF fault IS NULL
            AND (TG_OP = 'UPDATE' OR NEW.dependencies -> 'provides' <> '[]')
        THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA
            ) USING NEW.id;
        END IF;
    END IF;
    IF fault IS NOT NULL THEN
        RAISE 'This is no job: %.', fault
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job';
    END IF;
    RETURN NULL;
END
$$;
