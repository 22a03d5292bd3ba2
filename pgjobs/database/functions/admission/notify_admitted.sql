-- Notify the workers of the queues that have READY jobs now, except of those jobs that
-- the caller will claim itself.
CREATE OR REPLACE FUNCTION pgjobs_notify_admitted(
    admitted_to text[], room integer, served text[], excluded text[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('pgjobs', queue)
    FROM (SELECT DISTINCT unnest(admitted_to)) AS name (queue)
    WHERE cardinality(admitted_to) > room
        OR NOT coalesce(queue = ANY (served), true)
        OR queue = ANY (excluded);
END
$$;
