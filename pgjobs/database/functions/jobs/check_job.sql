-- Refuse a row that no job can be, in those columns that neither a claim nor a success
-- changes. (constraints/is_job.sql has the others.) PostgreSQL would call the function
-- of a constraint with each version of a row; this trigger does not fire for the two
-- statements that make most versions.
CREATE OR REPLACE FUNCTION pgjobs_check_job() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    fault text := CASE
        WHEN jsonb_typeof(NEW.args) <> 'array' THEN 'args must be an array'
        WHEN jsonb_typeof(NEW.kwargs) <> 'object' THEN 'kwargs must be an object'
        WHEN NEW.task = '' THEN 'task must not be empty'
        -- A regular expression takes longer than all the rest.
        WHEN NEW.queue_name <> 'default' AND NEW.queue_name !~ '^[^,[:cntrl:]]+$'
            THEN 'queue_name must have characters, but no commas and control '
                'characters'
        WHEN NEW.priority NOT BETWEEN -100 AND 100
            THEN 'priority must be from -100 to 100'
        -- NaN and infinity are larger than anything.
        WHEN NEW.timeout <= 0 OR NEW.timeout > 3153600000
            THEN 'timeout must be positive, and no more than 100 years'
        WHEN NEW.process_units < 1 THEN 'process_units must be at least 1'
        WHEN least(NEW.max_attempts, NEW.max_crashes) < 1
            THEN 'max_attempts and max_crashes must be at least 1'
        WHEN NEW.life < 1 THEN 'life can only rise, from 1'
        WHEN NEW.unique_key = '' THEN 'unique_key must not be empty'
        WHEN num_nonnulls(NEW.unique_key, NEW.unique_for) = 1
            THEN 'unique_key and unique_for belong together'
        WHEN NEW.unique_for NOT IN ('unfinished', 'waiting', 'period')
            THEN 'unique_for must be unfinished, waiting or period'
        WHEN NEW.unique_until IS NOT NULL
            AND NEW.unique_for IS DISTINCT FROM 'period'
            THEN 'unique_until needs unique_for = period'
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
    -- These are rare. They call no function of ours by a bare name: the search path is
    -- that of the statement that writes the job.
    IF fault IS NULL AND NEW.keys IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.keys) <> 'object' THEN 'keys must be an object'
            WHEN jsonb_typeof(NEW.keys -> 'lock') <> 'string'
                OR length(NEW.keys ->> 'lock') NOT BETWEEN 1 AND 500
                THEN 'keys: lock must be a text of 1 to 500 characters'
            WHEN jsonb_typeof(NEW.keys -> 'is_ordered') <> 'boolean'
                THEN 'keys: is_ordered must be true or false'
        END;
        IF fault IS NULL AND NEW.keys ?| ARRAY['limit_key', 'max_running'] THEN
            fault := CASE
                WHEN NOT NEW.keys ?& ARRAY['limit_key', 'max_running']
                    THEN 'keys: limit_key and max_running belong together'
                WHEN jsonb_typeof(NEW.keys -> 'limit_key') <> 'string'
                    OR length(NEW.keys ->> 'limit_key') NOT BETWEEN 1 AND 500
                    THEN 'keys: limit_key must be a text of 1 to 500 characters'
                WHEN jsonb_typeof(NEW.keys -> 'max_running') <> 'number'
                    OR (NEW.keys -> 'max_running')::numeric
                        <> trunc((NEW.keys -> 'max_running')::numeric)
                    OR (NEW.keys -> 'max_running')::numeric
                        NOT BETWEEN 1 AND 2147483647
                    THEN 'keys: max_running must be at least 1'
            END;
        END IF;
        IF fault IS NULL
            AND NEW.keys ?| ARRAY['rate_key', 'rate_interval', 'rate_burst']
        THEN
            fault := CASE
                WHEN NOT NEW.keys ?& ARRAY['rate_key', 'rate_interval', 'rate_burst']
                    THEN 'keys: rate_key, rate_interval and rate_burst belong '
                        'together'
                WHEN jsonb_typeof(NEW.keys -> 'rate_key') <> 'string'
                    OR length(NEW.keys ->> 'rate_key') NOT BETWEEN 1 AND 500
                    THEN 'keys: rate_key must be a text of 1 to 500 characters'
                WHEN jsonb_typeof(NEW.keys -> 'rate_burst') <> 'number'
                    OR (NEW.keys -> 'rate_burst')::numeric
                        <> trunc((NEW.keys -> 'rate_burst')::numeric)
                    OR (NEW.keys -> 'rate_burst')::numeric
                        NOT BETWEEN 1 AND 2147483647
                    THEN 'keys: rate_burst must be at least 1'
                WHEN jsonb_typeof(NEW.keys -> 'rate_interval') <> 'number'
                    OR (NEW.keys -> 'rate_interval')::numeric <= 0
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
                WHEN jsonb_typeof(NEW.keys -> 'batch_id') <> 'number'
                    THEN 'keys: batch_id must be an id'
                WHEN jsonb_typeof(NEW.keys -> 'after') <> 'array'
                    OR jsonb_typeof(NEW.keys -> 'after_batches') <> 'array'
                    OR jsonb_path_exists(
                        NEW.keys,
                        '$.after[*] ? (@.type() <> "number" || @.floor() <> @)'
                    )
                    OR jsonb_path_exists(
                        NEW.keys,
                        '$.after_batches[*] ? (@.type() <> "number" '
                            '|| @.floor() <> @)'
                    )
                    THEN 'keys: after and after_batches must be arrays of ids'
                -- So predecessors make no circles.
                WHEN jsonb_path_exists(
                    NEW.keys, '$.after[*] ? (@ >= $id)',
                    jsonb_build_object('id', NEW.id)
                )
                    THEN 'keys: after can only name jobs that were enqueued before'
            END;
        END IF;
    END IF;
    IF fault IS NULL AND NEW.dependencies IS NOT NULL THEN
        fault := CASE
            WHEN jsonb_typeof(NEW.dependencies -> 'needs') IS DISTINCT FROM 'array'
                OR jsonb_typeof(NEW.dependencies -> 'serves')
                    IS DISTINCT FROM 'array'
                OR EXISTS (
                    SELECT FROM jsonb_array_elements(
                        (NEW.dependencies -> 'needs')
                            || (NEW.dependencies -> 'serves')
                    ) AS each (tie)
                    WHERE jsonb_typeof(tie) <> 'object'
                        OR jsonb_typeof(tie -> 'key') IS DISTINCT FROM 'string'
                        OR length(tie ->> 'key') NOT BETWEEN 1 AND 500
                        OR NOT coalesce(jsonb_path_exists(
                            tie, '$[*] ? (@.within >= 0 && @.within <= 3153600000 '
                                '|| @.for >= 0 && @.for <= 3153600000)'
                        ), false)
                )
                THEN 'dependencies must be {"needs": [{"key": ..., "within": ...}], '
                    '"serves": [{"key": ..., "for": ...}]}'
        END;
        IF fault IS NULL
            AND (TG_OP = 'UPDATE' OR NEW.dependencies -> 'serves' <> '[]')
        THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_serve($1)', TG_TABLE_SCHEMA
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
