-- Publish an event: insert it, and a job for each task that subscribes to it.
CREATE OR REPLACE FUNCTION pgjobs_publish(
    name text,
    payload jsonb DEFAULT '{}',
    aggregate_id text DEFAULT NULL,
    correlation_id text DEFAULT NULL,
    meta jsonb DEFAULT NULL
) RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    event pgjobs_event;
    -- All definitions say the same.
    most CONSTANT integer := (
        SELECT (options -> 'max_argument_bytes')::integer FROM pgjobs_taskdefinition
        WHERE gone_at IS NULL LIMIT 1
    );
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
    IF pgjobs_json_size(payload, most) > most THEN
        RAISE EXCEPTION 'The payload of an event is % bytes of JSON, more than the % '
            'that PGJOBS[''MAX_ARGUMENT_BYTES''] allows.',
            pgjobs_json_size(payload, most), most
            USING ERRCODE = '22023', COLUMN = 'payload';
    END IF;
    PERFORM pgjobs_check_meta(meta);
    handlers := (SELECT count(*) FROM pgjobs_handlers(name));
    INSERT INTO pgjobs_event
        (name, payload, aggregate_id, correlation_id, handlers, meta)
    VALUES (name, payload, aggregate_id, correlation_id, handlers, meta)
    RETURNING * INTO event;
    IF handlers > 0 THEN
        made := (SELECT count(*) FROM pgjobs_deliver(ARRAY[event], 'published', NULL));
        IF made <> handlers THEN  -- subscriptions were changed a moment ago
            UPDATE pgjobs_event SET handlers = made WHERE id = event.id;
        END IF;
    END IF;
    PERFORM pgjobs_note_awaited(event.id, event.name, event.aggregate_id);
    RETURN event.id;
END
$$;
