-- Find events that were published before anybody knew that a task waits for them: while a
-- deploy went on, before the first worker came, or in a transaction with an older snapshot.
-- Looked at are the latest, and a slice of all others before an id. Return how many were
-- found, before which id there are more (NULL: there are none), and since when the tasks
-- that wait are known. Their transactions are not known any more, so time decides whether
-- they count.
CREATE OR REPLACE FUNCTION pgjobs_find_awaited(
    seconds double precision, most integer, before bigint,
    OUT number integer, OUT further bigint, OUT known text
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    slice CONSTANT integer := 5 * most;
    older bigint[];
    missed bigint[];
BEGIN
    number := 0;
    SELECT max(synced_at)::text INTO known
    FROM pgjobs_taskdefinition WHERE options ? 'waits_for';
    IF known IS NULL THEN
        RETURN;
    END IF;
    older := ARRAY(
        SELECT id FROM pgjobs_event WHERE id < before ORDER BY id DESC LIMIT slice
    );
    missed := ARRAY(
        SELECT event.id
        FROM (
            SELECT id, name FROM pgjobs_event
            WHERE published_at > clock_timestamp() - make_interval(secs => seconds)
            UNION
            SELECT id, name FROM pgjobs_event WHERE id = ANY (older)
        ) AS event
        WHERE NOT EXISTS (
                SELECT FROM pgjobs_awaitedevent WHERE event_id = event.id OFFSET 0
            )
            AND EXISTS (
                SELECT FROM pgjobs_taskdefinition
                WHERE options ? 'waits_for'
                    AND options -> 'waits_for' ?| pgjobs_patterns(event.name)
            )
        LIMIT most
    );
    INSERT INTO pgjobs_awaitedevent (event_id, name, aggregate_id, cluster, transaction)
    SELECT id, name, aggregate_id, -2, 0 FROM pgjobs_event WHERE id = ANY (missed)
    ON CONFLICT DO NOTHING;
    INSERT INTO pgjobs_waitnote (event_id) SELECT unnest(missed);
    number := cardinality(missed);
    further := CASE WHEN number = most THEN before ELSE older[slice] END;
END
$$;
