-- Lift a batch of the overrides whose time is over, with an entry in the audit trail. They
-- have counted no more since then. What a lower limit or rate has kept back is found by a
-- sweep, which the worker that calls this begins at once.
CREATE OR REPLACE FUNCTION pgjobs_end_overrides(most integer) RETURNS integer
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    number integer;
BEGIN
    WITH ended AS (
        DELETE FROM pgjobs_override
        WHERE id = ANY (ARRAY(
            SELECT id FROM pgjobs_override WHERE until <= clock_timestamp()
            LIMIT most FOR UPDATE SKIP LOCKED
        ))
        RETURNING id, kind, key, until
    ),
    entry AS (
        INSERT INTO pgjobs_auditentry (actor, via, act, model, object_id, number, chosen)
        SELECT 'pgjobs', 'SQL', 'end', 'override', id, 1, kind || ' ' || key
        FROM ended
    )
    SELECT count(*) INTO number FROM ended;
    RETURN number;
END
$$;
