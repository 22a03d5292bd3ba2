-- Claim these jobs in a transaction that is rolled back, to see which of them make a
-- claim fail. It returns the columns of a claim, because Python may be unable to read a
-- value.
WITH free AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[]) AND status = 'READY'
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE pgjobs_job AS job
SET status = 'RUNNING',
    attempts = least(attempts, 2147483646) + 1,
    lease_token = nextval('pgjobs_lease_token'),
    worker_id = %(worker_id)s,
    started_at = coalesce(started_at, clock_timestamp()),
    last_attempted_at = clock_timestamp()
WHERE job.id = ANY (ARRAY(SELECT id FROM free))
RETURNING id, task, args::text, kwargs::text, queue_name, priority, attempts, failures,
    max_attempts, crashes, max_crashes, timeout, life, lease_token, enqueued_at,
    keys IS NOT NULL, dependencies IS NOT NULL, turn, meta::text,
    extract(epoch FROM now() - greatest(run_after,
        CASE WHEN attempts = 2 - life THEN enqueued_at END))::float8
