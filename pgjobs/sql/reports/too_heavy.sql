-- READY jobs that the worker would take, but that take more than its host has at all.
SELECT id, task, queue_name, process_units FROM pgjobs_job
WHERE status = 'READY'
    AND process_units > %(total)s
    AND (%(queues)s::text[] IS NULL OR queue_name = ANY (%(queues)s::text[]))
    AND NOT queue_name = ANY (%(excluded)s::text[])
ORDER BY priority DESC, turn
LIMIT %(limit)s
