-- Return the first jobs of each line, as many as `numbers` says, and their places in the
-- line. Jobs of paused and unserved queues are skipped. Mostly there are none, and an
-- index has the jobs of a line in their order, whatever queues they are in.
CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb, place bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    first record;
    served text[];
    mixed record;  -- lines with jobs that are skipped
BEGIN
    SELECT array_agg(head.line) AS lines, array_agg(head.id) AS ids,
        array_agg(head.keys) AS keys, array_agg(head.queue_name) AS queues,
        array_agg(head.place) AS places
    INTO first
    FROM unnest(lines, numbers) AS wanted (line, number)
    CROSS JOIN LATERAL (
        SELECT job.*, row_number() OVER () AS place
        FROM (
            SELECT job.line, job.id, job.keys, queue_name
            FROM pgjobs_job AS job
            -- The second condition is the index's own.
            WHERE job.line = wanted.line AND job.line LIKE '% %'
            ORDER BY job.line, priority DESC, turn LIMIT number
        ) AS job
    ) AS head;
    served := pgjobs_served_of(first.queues);
    SELECT array_agg(wanted.line) AS lines, array_agg(wanted.number) AS numbers
    INTO mixed
    FROM unnest(lines, numbers) AS wanted (line, number)
    WHERE wanted.line = 'arrived' OR wanted.line = ANY (ARRAY(
        SELECT head.line FROM unnest(first.lines, first.queues) AS head (line, name)
        WHERE NOT name = ANY (served)
    ));
    RETURN QUERY
    SELECT head.line, head.id, head.keys, head.place
    FROM unnest(first.lines, first.ids, first.keys, first.places)
        AS head (line, id, keys, place)
    WHERE head.line = ANY (mixed.lines) IS NOT TRUE;
    IF mixed.lines IS NOT NULL THEN
        RETURN QUERY SELECT * FROM pgjobs_heads_by_queue(mixed.lines, mixed.numbers);
    END IF;
END
$$;
