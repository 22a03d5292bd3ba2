-- Jobs that wait for a dependency about which no worker has decided yet.
-- Returns nothing while another worker decides, because two could enqueue the same job.
-- Jobs of tasks that this worker does not know are taken only after their grace.
WITH own AS MATERIALIZED (
    -- "pgjd" in ASCII
    SELECT pg_try_advisory_xact_lock(1885825636, 0) AS may_decide
)
SELECT id, task, args::text, kwargs::text, priority
FROM pgjobs_job
WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE (SELECT may_decide FROM own) AND line = 'undecided'
        LIMIT %(most)s
    ))
    AND line = 'undecided'
    AND (
        task = ANY (%(tasks)s::text[])
        OR enqueued_at
            < clock_timestamp() - make_interval(secs => %(unknown_task_grace)s)
    )
LIMIT %(limit)s
FOR NO KEY UPDATE SKIP LOCKED
