-- Write into the rows of workers what operators want of them, and return the ids of those
-- for which that is new. Each heartbeat reads it; a notification lets one follow at once.
-- A worker that is to stop does not go back on it. Admissions have skipped the lines of
-- queues that nobody served: they sweep where a worker goes on.
WITH ordered AS (
    UPDATE pgjobs_worker SET wanted = %(wanted)s
    WHERE id = ANY (%(ids)s::bigint[]) AND wanted NOT IN (%(wanted)s, 'stop')
    RETURNING id
)
SELECT id, pg_notify('pgjobs_worker_' || id, 'order'),
    CASE WHEN %(wanted)s = '' THEN pg_notify('pgjobs_admission', 'sweep') END
FROM ordered
