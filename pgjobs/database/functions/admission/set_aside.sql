-- Put a batch of the jobs that have arrived in the unserved ones of these queues into
-- the lines of their queues; return how many. They are not looked at any more until the
-- sweep finds that the queue is served.
CREATE OR REPLACE FUNCTION pgjobs_set_aside(
    queues text[], served text[], most integer
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer := 0;
BEGIN
    IF cardinality(served) < cardinality(queues) THEN
        UPDATE pgjobs_job SET line = pgjobs_line('unserved', queue_name)
        WHERE id = ANY (ARRAY(
            SELECT job.id
            FROM unnest(queues) AS queue (name)
            CROSS JOIN LATERAL (
                SELECT id FROM pgjobs_job
                WHERE line = 'arrived' AND queue_name = queue.name
                LIMIT most
                FOR NO KEY UPDATE SKIP LOCKED
            ) AS job
            WHERE NOT queue.name = ANY (served)
            LIMIT most
        ));
        GET DIAGNOSTICS number = ROW_COUNT;
    END IF;
    RETURN number;
END
$$;
