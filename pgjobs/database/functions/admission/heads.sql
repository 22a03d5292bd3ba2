-- Return the first jobs of each line, as many as `numbers` says. Jobs of paused and
-- unserved queues are skipped. Mostly one job of each line is asked for, and the line
-- has jobs of one queue. Then the first entry of the index is that job.
CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb) LANGUAGE plpgsql STABLE AS $$
DECLARE
    first record;
BEGIN
    IF 1 = ALL (numbers) THEN
        SELECT array_agg(head.line) AS lines, array_agg(head.id) AS ids,
            array_agg(head.keys) AS keys, array_agg(head.queue_name) AS queues,
            bool_or(has_more_queues) AS are_mixed
        INTO first
        FROM unnest(lines) AS wanted (line)
        CROSS JOIN LATERAL (
            SELECT job.line, job.id, job.keys, queue_name, EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.line = job.line AND other.queue_name > job.queue_name
                ) AS has_more_queues
            FROM pgjobs_job AS job
            WHERE job.line = wanted.line
            ORDER BY job.line, queue_name, priority DESC, turn LIMIT 1
        ) AS head;
        IF NOT first.are_mixed THEN
            RETURN QUERY
            SELECT head.line, head.id, head.keys
            FROM unnest(first.lines, first.ids, first.keys, first.queues)
                AS head (line, id, keys, queue_name)
            WHERE queue_name = ANY (ARRAY(
                SELECT name FROM (
                    SELECT DISTINCT unnest(first.queues) OFFSET 0
                ) AS queue (name)
                WHERE pgjobs_is_served(name)
            ));
        END IF;
        IF first.are_mixed IS NOT TRUE THEN
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM pgjobs_heads_by_queue(lines, numbers);
END
$$;
