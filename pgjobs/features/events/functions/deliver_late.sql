-- Deliver events that had no subscriber when they were published and have one now, up
-- to `grace` seconds after their publication. Return the number of events. Only one
-- worker at a time does this, so that the ids of the jobs rise with the events. (The
-- class of its lock is "pgje" in ASCII.)
--
-- The names of the events are found from the patterns of the subscriptions, by hopping
-- along the index. So events without a subscriber are not read, however many names they
-- have. Names are compared by their bytes: in this order those of one prefix stand
-- together, and "/" is the character behind ".".
CREATE OR REPLACE FUNCTION pgjobs_deliver_late(grace float8, most integer)
RETURNS bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    names text[];
    ids bigint[];
    events pgjobs_event[];
    delivered bigint;
BEGIN
    IF NOT EXISTS (SELECT FROM pgjobs_event WHERE handlers = 0) THEN
        RETURN 0;
    END IF;
    WITH RECURSIVE pattern AS (
        SELECT event,
            CASE
                WHEN right(event, 2) = '.*' THEN left(event, -2) || '/'
                ELSE event || chr(1)
            END AS behind
        FROM (
            SELECT DISTINCT event FROM pgjobs_subscription WHERE inactive_at IS NULL
        ) AS active
    ),
    unhandled (name, behind) AS (
        SELECT (
            SELECT name FROM pgjobs_event
            WHERE handlers = 0 AND name < behind AND name >= CASE
                WHEN right(event, 2) = '.*' THEN left(event, -1)
                ELSE event
            END
            ORDER BY name LIMIT 1
        ), behind
        FROM pattern
        UNION ALL
        SELECT (
            SELECT event.name FROM pgjobs_event AS event
            WHERE handlers = 0 AND event.name < behind AND event.name > unhandled.name
            ORDER BY event.name LIMIT 1
        ), behind
        FROM unhandled WHERE unhandled.name IS NOT NULL
    )
    SELECT array_agg(DISTINCT name) INTO names FROM unhandled WHERE name IS NOT NULL;
    IF names IS NULL OR NOT pg_try_advisory_xact_lock(x'70676a65'::bigint) THEN
        RETURN 0;
    END IF;
    -- OFFSET 0: the planner must not look for the events by their time or id.
    ids := ARRAY(
        SELECT id FROM (
            SELECT id, published_at FROM pgjobs_event
            WHERE handlers = 0 AND name = ANY (names)
            OFFSET 0
        ) AS unhandled
        WHERE published_at > statement_timestamp() - make_interval(secs => grace)
        ORDER BY id LIMIT most
    );
    events := ARRAY(
        SELECT event FROM pgjobs_event AS event
        WHERE id = ANY (ids) AND handlers + 0 = 0  -- not by the index of these
        ORDER BY id
        FOR NO KEY UPDATE SKIP LOCKED
    );
    UPDATE pgjobs_event AS event SET handlers = made.number
    FROM (
        SELECT event_id, count(*) AS number
        FROM pgjobs_deliver(events, 'late', NULL) AS event_id GROUP BY event_id
    ) AS made
    WHERE event.id = made.event_id AND event.id = ANY (ids);
    GET DIAGNOSTICS delivered = ROW_COUNT;
    RETURN delivered;
END
$$;
