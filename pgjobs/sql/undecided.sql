-- Jobs that wait for a dependency of which nobody has looked yet who is to meet it, if
-- no other worker decides at the moment: two could enqueue the same job.
-- Of tasks that nobody here knows only those are taken that are older than the grace.
WITH own AS MATERIALIZED (
    -- "pgjd" in ASCII
    SELECT pg_try_advisory_xact_lock(1885825636, 0) AS may_decide
)
SELECT job.id, job.task, job.args::text, job.kwargs::text, job.priority
FROM own
CROSS JOIN LATERAL (
    SELECT key::bigint AS job_id FROM pgjobs_unsettled
    WHERE own.may_decide AND kind = 'dependency'
    ORDER BY id
    LIMIT %(notes)s
) AS note
JOIN pgjobs_job AS job ON job.id = note.job_id
WHERE job.status = 'WAITING'
    AND job.waiting_for = 'dependency'
    AND (
        job.task = ANY (%(tasks)s::text[])
        OR job.enqueued_at
            < clock_timestamp() - make_interval(secs => %(unknown_task_grace)s)
    )
LIMIT %(limit)s
FOR NO KEY UPDATE OF job SKIP LOCKED
