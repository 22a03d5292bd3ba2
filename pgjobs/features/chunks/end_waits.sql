-- Make jobs READY that wait for others of their task alone (chunk_wait): a worker that
-- drains the queue, and tests, do not wait. Return their ids.
WITH waiting AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE task = ANY (%(tasks)s::text[]) AND status = 'SCHEDULED'
        AND status IN ('READY', 'SCHEDULED') AND keys ? 'chunk_by'
        AND pgjobs_chunk_key(
            keys, kwargs, chunk, life, attempts, status, run_after, enqueued_at
        ) IS NOT NULL
        AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
        AND NOT queue_name = ANY (%(excluded)s::text[])
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgjobs_job SET status = 'READY', run_after = statement_timestamp()
WHERE id = ANY (ARRAY(SELECT id FROM waiting))
RETURNING id
