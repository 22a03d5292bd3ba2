-- What WAITING jobs wait for at this moment, and the job in the way, if any. This calls
-- no function of ours, because a view is made of it.
SELECT job.id AS job_id,
    CASE
        WHEN (job.line = 'arrived' OR job.line LIKE 'unserved %%')
            AND NOT EXISTS (
                SELECT FROM (SELECT job.queue_name) AS queue WHERE
                \ir queue/served.sql
            )
            THEN 'unserved'
        WHEN job.line IN ('arrived', 'unlinked') OR job.line LIKE 'unserved %%'
            THEN 'arrived'
        WHEN job.line LIKE 'paused %%' THEN 'paused'
        WHEN job.line IN ('undecided', 'unknown') OR link.number > 0
            THEN job.waiting_for
        WHEN job.waiting_for = 'lock' AND blocker.id IS NOT NULL THEN 'lock'
        WHEN job.waiting_for = 'limit'
            AND least(flow.max_running, first.max_running) <= (
                SELECT count(*) FROM (
                    SELECT FROM pgjobs_job
                    WHERE keys IS NOT NULL AND keys ->> 'limit_key' = flow.limit_key
                        AND status IN ('READY', 'RUNNING')
                    LIMIT least(flow.max_running, first.max_running)
                ) AS running
            )
            THEN 'limit'
        WHEN job.waiting_for = 'rate' AND rate.opens_at > clock_timestamp() THEN 'rate'
    END AS waiting_for,
    rate.opens_at, least(flow.max_running, first.max_running) AS max_running,
    CASE
        WHEN job.line LIKE 'paused %%' THEN substr(job.line, 8)
        WHEN job.waiting_for = 'lock' THEN flow.lock
        WHEN job.waiting_for = 'limit' THEN flow.limit_key
        WHEN job.waiting_for = 'rate' THEN flow.rate_key
    END AS key,
    blocker.id AS blocker_id, blocker.status AS blocker_status,
    blocker.queue_name AS blocker_queue, blocker.run_after AS blocker_run_after,
    link.batch_id, link.number AS links
FROM pgjobs_job AS job
CROSS JOIN LATERAL (
    SELECT job.keys ->> 'lock', job.keys ->> 'is_ordered' IS DISTINCT FROM 'false',
        job.keys ->> 'limit_key', coalesce(
            (
                SELECT max_running FROM pgjobs_override
                WHERE kind = 'limit' AND key = job.keys ->> 'limit_key'
                    AND (until IS NULL OR until > clock_timestamp())
            ),
            (
                SELECT max_running FROM pgjobs_override
                WHERE kind = 'task' AND key = job.task
                    AND (until IS NULL OR until > clock_timestamp())
            ),
            (job.keys -> 'max_running')::integer
        ), job.keys ->> 'rate_key'
) AS flow (lock, is_ordered, limit_key, max_running, rate_key)
-- The first in line whose queue is served holds up the others, if it allows fewer jobs.
LEFT JOIN LATERAL (
    SELECT coalesce(
        (
            SELECT max_running FROM pgjobs_override
            WHERE kind = 'limit' AND key = near.keys ->> 'limit_key'
                AND (until IS NULL OR until > clock_timestamp())
        ),
        (
            SELECT max_running FROM pgjobs_override
            WHERE kind = 'task' AND key = near.task
                AND (until IS NULL OR until > clock_timestamp())
        ),
        (near.keys -> 'max_running')::integer
    )
    FROM (
        SELECT task, keys, queue_name, priority, turn FROM pgjobs_job AS other
        -- The second condition is the index's own.
        WHERE other.line = job.line AND other.line LIKE '%% %%'
        ORDER BY other.line, priority DESC, turn LIMIT 100
    ) AS near
    WHERE
    \ir queue/served.sql
    ORDER BY priority DESC, turn LIMIT 1
) AS first (max_running) ON job.waiting_for = 'limit' AND job.line NOT LIKE 'paused %%'
LEFT JOIN pgjobs_rate AS rate ON rate.key = flow.rate_key
CROSS JOIN LATERAL (
    SELECT min(batch_id) AS batch_id, min(predecessor_id) AS predecessor_id,
        count(*) AS number
    FROM pgjobs_predecessor WHERE job_id = job.id AND is_open
) AS link
LEFT JOIN pgjobs_job AS blocker ON blocker.id = CASE
    WHEN job.line IN ('arrived', 'unlinked') OR job.line LIKE 'unserved %%' THEN NULL
    WHEN link.number > 0 THEN link.predecessor_id
    ELSE coalesce(
        (
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = flow.lock
                AND status IN ('READY', 'RUNNING')
        ),
        (
            SELECT first.id FROM (
                SELECT id FROM pgjobs_job
                WHERE keys IS NOT NULL
                    AND keys ->> 'lock' BETWEEN flow.lock AND flow.lock
                    AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
                    AND status IN ('WAITING', 'SCHEDULED')
                ORDER BY keys ->> 'lock', id LIMIT 1
            ) AS first
            WHERE first.id < job.id AND flow.is_ordered
        )
    )
END
WHERE job.status = 'WAITING'
