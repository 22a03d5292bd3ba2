-- Return the first jobs of each line, as many as `numbers` says, and their places in the
-- line. Jobs of paused and unserved queues are skipped. Mostly a line has jobs of one
-- queue. Then the first entries of the index are these jobs.
CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb, place bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    first record;
BEGIN
    SELECT array_agg(head.line) AS lines, array_agg(head.id) AS ids,
        array_agg(head.keys) AS keys, array_agg(head.queue_name) AS queues,
        array_agg(head.place) AS places, bool_or(has_more_queues) AS are_mixed
    INTO first
    FROM unnest(lines, numbers) AS wanted (line, number)
    CROSS JOIN LATERAL (
        SELECT job.line, job.id, job.keys, queue_name, row_number() OVER () AS place,
            row_number() OVER () = 1 AND EXISTS (
                SELECT FROM pgjobs_job AS other
                WHERE other.line = job.line AND other.queue_name > job.queue_name
            ) AS has_more_queues
        FROM (
            SELECT job.line, job.id, job.keys, queue_name
            FROM pgjobs_job AS job
            WHERE job.line = wanted.line
            ORDER BY job.line, queue_name, priority DESC, turn LIMIT number
        ) AS job
    ) AS head;
    IF first.are_mixed THEN
        RETURN QUERY SELECT * FROM pgjobs_heads_by_queue(lines, numbers);
    ELSIF first.lines IS NOT NULL THEN
        RETURN QUERY
        SELECT head.line, head.id, head.keys, head.place
        FROM unnest(first.lines, first.ids, first.keys, first.queues, first.places)
            AS head (line, id, keys, queue_name, place)
        WHERE queue_name = ANY (ARRAY(
            SELECT name FROM (
                SELECT DISTINCT unnest(first.queues) OFFSET 0
            ) AS queue (name)
            WHERE pgjobs_is_served(name)
        ));
    END IF;
END
$$;
