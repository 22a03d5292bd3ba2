-- Return the first jobs of each line, as pgjobs_heads does, although jobs of paused and
-- unserved queues come before them. The queues of a line are found by hopping along the
-- index from name to name. However many there are, none is left out.
CREATE OR REPLACE FUNCTION pgjobs_heads_by_queue(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb, place bigint)
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH queue AS MATERIALIZED (
        WITH RECURSIVE hop (line, number, name) AS (
            SELECT wanted.line, wanted.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = wanted.line
                ORDER BY queue_name LIMIT 1
            )
            FROM unnest(lines, numbers) AS wanted (line, number)
            UNION ALL
            SELECT hop.line, hop.number, (
                SELECT queue_name FROM pgjobs_job AS job
                WHERE job.line = hop.line AND queue_name > hop.name
                ORDER BY queue_name LIMIT 1
            )
            FROM hop WHERE hop.name IS NOT NULL
        )
        SELECT hop.line, hop.number, hop.name FROM hop WHERE hop.name IS NOT NULL
    ),
    -- The question is asked once for each queue, however many lines it is in.
    served AS MATERIALIZED (
        SELECT unnest(pgjobs_served_of(ARRAY(SELECT queue.name FROM queue))) AS name
    ),
    ranked AS (
        SELECT queue.line, queue.number, head.id, head.keys, row_number() OVER (
                PARTITION BY queue.line ORDER BY priority DESC, turn
            ) AS place
        FROM queue CROSS JOIN LATERAL (
            SELECT job.id, job.keys, priority, turn FROM pgjobs_job AS job
            WHERE job.line = queue.line AND job.queue_name = queue.name
            ORDER BY priority DESC, turn LIMIT queue.number
        ) AS head
        WHERE queue.name IN (SELECT served.name FROM served)
    )
    SELECT ranked.line, ranked.id, ranked.keys, ranked.place FROM ranked
    WHERE ranked.place <= ranked.number;
END
$$;
