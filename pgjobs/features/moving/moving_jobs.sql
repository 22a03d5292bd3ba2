-- Lock the jobs that a move takes along, and return their ids. A running job is not
-- among them: only its worker may end it.
SELECT id FROM pgjobs_job
WHERE status <> 'RUNNING'
    AND (%(arguments)s::jsonb IS NULL OR kwargs @> %(arguments)s::jsonb)
    AND (%(queues)s::text[] IS NULL OR queue_name = ANY (%(queues)s::text[]))
ORDER BY id FOR UPDATE
