-- Let an admission look again at a batch of the jobs that were set aside in these lines,
-- if their queue is served now. Return how many.
CREATE OR REPLACE FUNCTION pgjobs_bring_back(lines text[], most integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
    first record;
    served text[];
BEGIN
    -- The jobs of a line have one queue, unless SQL has moved some to another queue.
    SELECT array_agg(job.line) AS lines, array_agg(job.queue_name) AS queues
    INTO first
    FROM unnest(lines) AS wanted (line)
    CROSS JOIN LATERAL (
        (
            SELECT line, queue_name FROM pgjobs_job WHERE line = wanted.line
            ORDER BY line, queue_name LIMIT 1
        )
        UNION
        (
            SELECT line, queue_name FROM pgjobs_job WHERE line = wanted.line
            ORDER BY line DESC, queue_name DESC LIMIT 1
        )
    ) AS job
    WHERE starts_with(wanted.line, 'unserved ');
    served := pgjobs_served_of(first.queues);
    UPDATE pgjobs_job SET line = 'arrived'
    WHERE id = ANY (ARRAY(
        SELECT job.id
        FROM unnest(first.lines, first.queues) AS aside (line, name)
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job
            WHERE line = aside.line AND queue_name = aside.name
            LIMIT most
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS job
        WHERE aside.name = ANY (served)
        LIMIT most
    ));
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
