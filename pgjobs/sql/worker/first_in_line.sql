-- The first READY jobs of each queue, among which a claim chooses.
-- One of them makes the claim fail.
WITH RECURSIVE queue (name) AS (
    (
        SELECT queue_name FROM pgjobs_job WHERE status = 'READY'
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > queue.name
        ORDER BY queue_name LIMIT 1
    )
    FROM queue WHERE queue.name IS NOT NULL
)
SELECT job.id
FROM queue CROSS JOIN unnest('{f,t}'::boolean[]) AS takes_units CROSS JOIN LATERAL (
    SELECT id, priority, turn FROM pgjobs_job
    WHERE status = 'READY' AND queue_name = queue.name
        AND (process_units IS NOT NULL) = takes_units
    ORDER BY priority DESC, turn
    LIMIT %(limit)s
) AS job
WHERE (%(queues)s::text[] IS NULL OR queue.name = ANY (%(queues)s::text[]))
    AND NOT queue.name = ANY (%(excluded)s::text[])
ORDER BY job.priority DESC, job.turn
LIMIT %(most)s
