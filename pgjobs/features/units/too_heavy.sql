-- READY jobs that the worker would take, but that take more than its host has at all. The
-- numbers of units are found by hopping along the index.
WITH RECURSIVE weight (queue_name, units) AS (
    SELECT ''::varchar, 0::bigint
    UNION ALL
    SELECT job.*
    FROM weight CROSS JOIN LATERAL (
        SELECT queue_name, coalesce(process_units, 0) FROM pgjobs_job
        WHERE status = 'READY' AND (queue_name, coalesce(process_units, 0))
            > (weight.queue_name, greatest(units, %(total)s))
        ORDER BY queue_name, coalesce(process_units, 0) LIMIT 1
    ) AS job
)
SELECT job.id, job.task, job.queue_name, job.process_units
FROM weight CROSS JOIN LATERAL (
    SELECT * FROM pgjobs_job
    WHERE status = 'READY' AND queue_name = weight.queue_name
        AND coalesce(process_units, 0) = units
    ORDER BY priority DESC, turn LIMIT %(limit)s
) AS job
WHERE units > %(total)s
    AND (
        %(queues)s::text[] IS NULL OR weight.queue_name = ANY (%(queues)s::text[])
    )
    AND NOT weight.queue_name = ANY (%(excluded)s::text[])
LIMIT %(limit)s
