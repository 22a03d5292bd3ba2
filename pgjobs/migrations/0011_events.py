"""The functions that publish events and deliver them to those who subscribe."""

from django.db import migrations

from ._postgresql import RunPostgreSQL

# Deliveries go with their event and with their job, whoever deletes them.
CASCADES = (
    """
    ALTER TABLE pgjobs_delivery ADD CONSTRAINT pgjobs_delivery_event
        FOREIGN KEY (event_id) REFERENCES pgjobs_event (id) ON DELETE CASCADE;
    ALTER TABLE pgjobs_delivery ADD CONSTRAINT pgjobs_delivery_job
        FOREIGN KEY (job_id) REFERENCES pgjobs_job (id) ON DELETE CASCADE;
    """,
    """
    ALTER TABLE pgjobs_delivery DROP CONSTRAINT pgjobs_delivery_event;
    ALTER TABLE pgjobs_delivery DROP CONSTRAINT pgjobs_delivery_job;
    """,
)

# What SQL could insert but nobody read.
CHECKS = (
    """
    ALTER TABLE pgjobs_event
        ADD CONSTRAINT pgjobs_event_name CHECK (
            name <> '' AND name !~ '[*[:space:][:cntrl:]]'
        ),
        ADD CONSTRAINT pgjobs_event_payload CHECK (jsonb_typeof(payload) = 'object'),
        ADD CONSTRAINT pgjobs_event_ids CHECK (
            aggregate_id <> '' AND correlation_id <> ''
        ),
        ADD CONSTRAINT pgjobs_event_time CHECK (
            published_at >= '1970-01-01 00:00+00'
            AND published_at < '9999-01-01 00:00+00'
        );
    """,
    """
    ALTER TABLE pgjobs_event
        DROP CONSTRAINT pgjobs_event_name,
        DROP CONSTRAINT pgjobs_event_payload,
        DROP CONSTRAINT pgjobs_event_ids,
        DROP CONSTRAINT pgjobs_event_time;
    """,
)

# Who handles an event: each task once, even if several of its patterns match.
HANDLERS = (
    """
    CREATE FUNCTION pgjobs_matches(pattern text, name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE AS $$
        SELECT pattern = name
            OR right(pattern, 2) = '.*' AND starts_with(name, left(pattern, -1))
    $$;

    CREATE FUNCTION pgjobs_handlers(event_name text)
    RETURNS SETOF pgjobs_subscription LANGUAGE sql STABLE AS $$
        SELECT DISTINCT ON (task) * FROM pgjobs_subscription
        WHERE inactive_at IS NULL AND pgjobs_matches(event, event_name)
        ORDER BY task, is_ordered DESC, id
    $$;
    """,
    """
    DROP FUNCTION pgjobs_handlers(text);
    DROP FUNCTION pgjobs_matches(text, text);
    """,
)

# Insert the deliveries of events, and their jobs, with ids that rise with those of the
# events; `only_to`: one task. Returns the event's id for each. A task that has had an
# event does not get it again.
DELIVER = (
    """
    CREATE FUNCTION pgjobs_deliver(events pgjobs_event[], origin text, only_to text)
    RETURNS SETOF bigint LANGUAGE plpgsql AS $$
    BEGIN
        RETURN QUERY
        WITH wanted AS MATERIALIZED (
            SELECT nextval('pgjobs_job_id_seq') AS job_id, given.*
            FROM (
                SELECT event.id AS event_id, event.payload, event.aggregate_id,
                    handler.*
                FROM unnest(events) AS event
                CROSS JOIN LATERAL pgjobs_handlers(event.name) AS handler
                WHERE only_to IS NULL OR handler.task = only_to
                ORDER BY event.id, handler.id
            ) AS given
        ),
        delivery AS MATERIALIZED (
            INSERT INTO pgjobs_delivery AS made (event_id, task, job_id, origin)
            SELECT event_id, task, job_id, pgjobs_deliver.origin FROM wanted
            ON CONFLICT (event_id, task) DO NOTHING
            RETURNING made.event_id, made.job_id
        ),
        job AS (
            INSERT INTO pgjobs_job
                (id, task, kwargs, queue_name, priority, max_attempts, max_crashes,
                 timeout, expires_at, process_units, keys)
            SELECT wanted.job_id, task, payload, queue_name, priority, max_attempts,
                max_crashes, timeout,
                statement_timestamp() + make_interval(secs => expires_in),
                process_units,
                -- One lock for each handler and aggregate: see 0005_admission.
                CASE
                    WHEN is_ordered AND aggregate_id IS NOT NULL
                        THEN coalesce(keys, '{}') || jsonb_build_object(
                            'lock', task || ' ' || aggregate_id, 'is_ordered', true
                        )
                    ELSE keys
                END
            FROM wanted JOIN delivery ON delivery.job_id = wanted.job_id
            ORDER BY wanted.job_id
        )
        SELECT delivery.event_id FROM delivery;
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_deliver(pgjobs_event[], text, text);",
)

PUBLISH = (
    """
    CREATE FUNCTION pgjobs_check_event(what text, value text, may_be_null boolean)
    RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        IF value IS NULL AND NOT may_be_null THEN
            RAISE EXCEPTION 'The % of an event must not be NULL.', what
                USING ERRCODE = 'null_value_not_allowed';
        ELSIF value = '' OR length(value) > 200 THEN
            RAISE EXCEPTION 'The % of an event must be 1 to 200 characters, got %.',
                what, length(value) USING ERRCODE = 'invalid_parameter_value';
        END IF;
    END
    $$;

    CREATE FUNCTION pgjobs_publish(
        name text,
        payload jsonb DEFAULT '{}',
        aggregate_id text DEFAULT NULL,
        correlation_id text DEFAULT NULL
    ) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
        event pgjobs_event;
        handlers bigint;
        made bigint;
    BEGIN
        PERFORM pgjobs_check_event('name', name, false),
            pgjobs_check_event('aggregate_id', aggregate_id, true),
            pgjobs_check_event('correlation_id', correlation_id, true);
        IF name ~ '[*[:space:][:cntrl:]]' THEN
            RAISE EXCEPTION 'The name of an event must be without spaces and *, got %.',
                quote_literal(name)
                USING ERRCODE = 'invalid_parameter_value',
                    HINT = 'Publish a name such as tle.refreshed; tasks subscribe to '
                        'tle.*';
        END IF;
        IF payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
            RAISE EXCEPTION 'The payload of an event must be a JSON object, got %.',
                coalesce(left(payload::text, 100), 'NULL')
                USING ERRCODE = CASE
                    WHEN payload IS NULL THEN '22004' ELSE '22023'
                END,
                    HINT = 'Its handlers get it as arguments, by their names: '
                        '{"satellite_id": 5}';
        END IF;
        handlers := (SELECT count(*) FROM pgjobs_handlers(name));
        INSERT INTO pgjobs_event (name, payload, aggregate_id, correlation_id, handlers)
        VALUES (name, payload, aggregate_id, correlation_id, handlers)
        RETURNING * INTO event;
        IF handlers > 0 THEN
            made := (SELECT count(*) FROM pgjobs_deliver(ARRAY[event], 'published', NULL));
            IF made <> handlers THEN  -- subscriptions have just been changed
                UPDATE pgjobs_event SET handlers = made WHERE id = event.id;
            END IF;
        END IF;
        RETURN event.id;
    END
    $$;
    """,
    """
    DROP FUNCTION pgjobs_publish(text, jsonb, text, text);
    DROP FUNCTION pgjobs_check_event(text, text, boolean);
    """,
)

# Deliver what nobody had subscribed to when it was published, if somebody has since;
# `grace`: seconds since then. Returns the number of events. One worker at a time, so
# that jobs have their ids in the order of the events ("pgje" in ASCII is the lock).
# The names are found by hopping along the index: most have no subscriber, and however
# many events there are of them, they are not read.
DELIVER_LATE = (
    """
    CREATE FUNCTION pgjobs_deliver_late(grace float8, most integer) RETURNS bigint
    LANGUAGE plpgsql AS $$
    DECLARE
        names text[];
        events pgjobs_event[];
        delivered bigint;
    BEGIN
        WITH RECURSIVE unhandled (name) AS (
            (SELECT name FROM pgjobs_event WHERE handlers = 0 ORDER BY name LIMIT 1)
            UNION ALL
            SELECT (
                SELECT event.name FROM pgjobs_event AS event
                WHERE handlers = 0 AND event.name > unhandled.name
                ORDER BY event.name LIMIT 1
            )
            FROM unhandled WHERE unhandled.name IS NOT NULL
        )
        SELECT array_agg(name) INTO names FROM unhandled
        WHERE name IS NOT NULL AND EXISTS (SELECT FROM pgjobs_handlers(name));
        IF names IS NULL OR NOT pg_try_advisory_xact_lock(x'70676a65'::bigint) THEN
            RETURN 0;
        END IF;
        events := ARRAY(
            SELECT event FROM pgjobs_event AS event
            WHERE handlers = 0 AND name = ANY (names)
                AND published_at
                    > statement_timestamp() - make_interval(secs => grace)
            ORDER BY id
            LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        );
        UPDATE pgjobs_event AS event SET handlers = made.number
        FROM (
            SELECT event_id, count(*) AS number
            FROM pgjobs_deliver(events, 'late', NULL) AS event_id GROUP BY event_id
        ) AS made
        WHERE event.id = made.event_id;
        GET DIAGNOSTICS delivered = ROW_COUNT;
        RETURN delivered;
    END
    $$;
    """,
    "DROP FUNCTION pgjobs_deliver_late(float8, integer);",
)

# They run in whatever session publishes: names mean our tables there. To plan anew for
# each event would take as long as to insert its jobs; nothing in it is large.
SETTINGS_OF_FUNCTIONS = (
    """
    DO $$
    DECLARE
        entry text;
    BEGIN
        FOREACH entry IN ARRAY ARRAY[
            'pgjobs_publish(text, jsonb, text, text)',
            'pgjobs_deliver_late(float8, integer)',
            'pgjobs_deliver(pgjobs_event[], text, text)'
        ] LOOP
            EXECUTE format(
                'ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp',
                entry, current_schema()
            );
        END LOOP;
        ALTER FUNCTION pgjobs_deliver(pgjobs_event[], text, text)
            SET plan_cache_mode = force_generic_plan;
    END
    $$;
    """,
    migrations.RunSQL.noop,
)

# Truncation would take an exclusive lock and make every publisher wait.
STORAGE = (
    """
    ALTER TABLE pgjobs_event SET (vacuum_truncate = off);
    ALTER TABLE pgjobs_delivery SET (vacuum_truncate = off);
    """,
    """
    ALTER TABLE pgjobs_event RESET (vacuum_truncate);
    ALTER TABLE pgjobs_delivery RESET (vacuum_truncate);
    """,
)


class Migration(migrations.Migration):
    dependencies = [("pgjobs", "0010_sql_functions")]

    operations = [
        RunPostgreSQL(*each)
        for each in (
            CASCADES,
            CHECKS,
            HANDLERS,
            DELIVER,
            PUBLISH,
            DELIVER_LATE,
            SETTINGS_OF_FUNCTIONS,
            STORAGE,
        )
    ]
