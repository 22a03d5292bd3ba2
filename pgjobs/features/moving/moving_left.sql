-- Return some of the jobs that a move has not taken along yet: those that run, and what
-- they have enqueued meanwhile.
SELECT id FROM pgjobs_job
WHERE (%(arguments)s::jsonb IS NULL OR kwargs @> %(arguments)s::jsonb)
    AND (%(queues)s::text[] IS NULL OR queue_name = ANY (%(queues)s::text[]))
LIMIT 10
