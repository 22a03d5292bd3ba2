-- Return the first jobs of each line, as many as `numbers` says. Jobs of paused and
-- unserved queues are skipped. The queues of a line are found by hopping along the
-- index from name to name.
CREATE OR REPLACE FUNCTION pgjobs_heads(lines text[], numbers integer[])
RETURNS TABLE (line text, id bigint, keys jsonb) LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY
    WITH queue AS MATERIALIZED (
        SELECT wanted.name AS line, wanted.number, hop.name
        FROM unnest(lines, numbers) AS wanted (name, number)
        CROSS JOIN LATERAL (
            WITH RECURSIVE hop (name, number) AS (
                (
                    SELECT queue_name, 1 FROM pgjobs_job AS job
                    WHERE job.line = wanted.name
                    ORDER BY queue_name LIMIT 1
                )
                UNION ALL
                SELECT (
                    SELECT queue_name FROM pgjobs_job AS job
                    WHERE job.line = wanted.name AND queue_name > hop.name
                    ORDER BY queue_name LIMIT 1
                ), hop.number + 1
                FROM hop WHERE hop.name IS NOT NULL AND hop.number < 1000
            )
            SELECT hop.name FROM hop WHERE hop.name IS NOT NULL
        ) AS hop
    ),
    served AS MATERIALIZED (
        SELECT each.name FROM (SELECT DISTINCT queue.name FROM queue) AS each
        WHERE pgjobs_is_served(each.name)
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
    SELECT ranked.line, ranked.id, ranked.keys FROM ranked WHERE place <= number;
END
$$;
