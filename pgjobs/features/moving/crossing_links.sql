-- Return the links between jobs that a move takes along and others: a batch, a
-- predecessor, an event. They would be cut, because nothing looks across databases.
WITH chosen AS MATERIALIZED (
    SELECT id, batch_id, keys FROM pgjobs_job
    WHERE (%(arguments)s::jsonb IS NULL OR kwargs @> %(arguments)s::jsonb)
        AND (%(queues)s::text[] IS NULL OR queue_name = ANY (%(queues)s::text[]))
),
waits (id, predecessor_id, batch_id) AS (
    SELECT job_id, predecessor_id, batch_id FROM pgjobs_predecessor
    WHERE is_open OR gives_result
    UNION ALL
    -- No admission has looked at these yet.
    SELECT job.id, each.id::bigint, NULL
    FROM pgjobs_job AS job
    CROSS JOIN LATERAL jsonb_array_elements_text(job.keys -> 'after') AS each (id)
    WHERE job.line = 'unlinked'
    UNION ALL
    SELECT job.id, NULL, each.id::bigint
    FROM pgjobs_job AS job
    CROSS JOIN LATERAL jsonb_array_elements_text(job.keys -> 'after_batches')
        AS each (id)
    WHERE job.line = 'unlinked'
)
SELECT format('job %%s is in batch %%s with others', min(job.id), job.batch_id)
FROM pgjobs_job AS job LEFT JOIN chosen USING (id)
WHERE job.batch_id IN (SELECT batch_id FROM chosen)
GROUP BY job.batch_id HAVING count(chosen.id) < count(*)
UNION ALL
SELECT format('job %%s waits for job %%s', waits.id, predecessor.id)
FROM waits JOIN pgjobs_job AS predecessor ON predecessor.id = waits.predecessor_id
WHERE (waits.id IN (SELECT id FROM chosen))
    <> (predecessor.id IN (SELECT id FROM chosen))
UNION ALL
SELECT format('job %%s waits for batch %%s', waits.id, waits.batch_id)
FROM waits
WHERE waits.batch_id IN (SELECT batch_id FROM pgjobs_job)
    AND (waits.id IN (SELECT id FROM chosen))
        <> (waits.batch_id IN (SELECT batch_id FROM chosen))
UNION ALL
SELECT format('job %%s delivers event %%s', delivery.job_id, delivery.event_id)
FROM pgjobs_delivery AS delivery JOIN pgjobs_event AS event ON event.id = event_id
WHERE (delivery.job_id IN (SELECT id FROM chosen))
    <> (%(arguments)s::jsonb IS NOT NULL AND event.payload @> %(arguments)s::jsonb)
LIMIT 10
