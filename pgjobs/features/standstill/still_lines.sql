-- Lines that stand still: the first job that a worker would take has waited long, and
-- no job of the same key runs or will run next. What a living worker has, and what is
-- READY in a queue that is served, is on its way; what sleeps or waits for an answer, an
-- event or other jobs is meant to be in the way. Many short lines are read as they stand
-- in the index; beyond them the lines are found by hopping. Their first job, and since
-- when it waits. This calls no function of ours, so that any role that may read the
-- tables may ask.
WITH RECURSIVE near AS MATERIALIZED (
    SELECT line, id, queue_name, priority, turn,
        greatest(enqueued_at, run_after) AS since
    FROM pgjobs_job
    -- The second condition is the index's own.
    WHERE line < 'unserved' AND line LIKE '%% %%'
    ORDER BY line, priority DESC, turn
    LIMIT %(most_jobs)s
),
hop (line, id, queue_name, since, number) AS (
    SELECT max(line), NULL::bigint, NULL::varchar, NULL::timestamptz, 1 FROM near
    HAVING count(*) = %(most_jobs)s
    UNION ALL
    SELECT next.*, number + 1
    FROM hop CROSS JOIN LATERAL (
        SELECT line, id, queue_name, greatest(enqueued_at, run_after)
        FROM pgjobs_job
        WHERE line > hop.line AND line < 'unserved' AND line LIKE '%% %%'
        ORDER BY line, priority DESC, turn LIMIT 1
    ) AS next
    WHERE number < %(most_lines)s
),
first AS MATERIALIZED (
    SELECT line, id, queue_name, since FROM (
        (
            SELECT DISTINCT ON (line) line, id, queue_name, since FROM near
            ORDER BY line, priority DESC, turn
        )
        UNION ALL
        SELECT line, id, queue_name, since FROM hop WHERE id IS NOT NULL
    ) AS found
    WHERE since < clock_timestamp() - %(patience)s::interval
        -- Somebody wants these to stand still.
        AND line NOT IN (
            SELECT 'paused ' || CASE  -- as in pgjobs_line
                WHEN octet_length(kind || ' ' || key) <= 500 THEN kind || ' ' || key
                ELSE 'md5 ' || md5(kind || ' ' || key)
            END
            FROM pgjobs_override
            WHERE paused_at IS NOT NULL AND (until IS NULL OR until > clock_timestamp())
        )
    ORDER BY since
    LIMIT %(most_old)s
),
served AS MATERIALIZED (
    SELECT queue_name FROM (SELECT DISTINCT queue_name FROM first OFFSET 0) AS queue
    WHERE
    \ir ../../sql/reports/queue/served.sql
),
-- Of a line whose first job is in a queue that nobody serves, the first that is in another
-- one.
behind AS MATERIALIZED (
    SELECT job.*
    FROM (
        SELECT line FROM first
        WHERE queue_name NOT IN (SELECT queue_name FROM served)
        ORDER BY since LIMIT %(most_aside)s
    ) AS aside
    CROSS JOIN LATERAL (
        SELECT line, id, queue_name, since FROM (
            SELECT line, id, queue_name, priority, turn,
                greatest(enqueued_at, run_after) AS since
            FROM pgjobs_job AS other
            WHERE other.line = aside.line AND other.line LIKE '%% %%'
            ORDER BY other.line, priority DESC, turn LIMIT %(most_queues)s
        ) AS near
        WHERE
        \ir ../../sql/reports/queue/served.sql
        ORDER BY priority DESC, turn LIMIT 1
    ) AS job
),
old AS MATERIALIZED (
    SELECT head.id, waiting_for, keys, since
    FROM (
        SELECT id, since FROM first JOIN served USING (queue_name)
        UNION ALL
        SELECT id, since FROM behind
        WHERE since < clock_timestamp() - %(patience)s::interval
    ) AS head
    CROSS JOIN LATERAL (
        SELECT waiting_for, keys FROM pgjobs_job
        WHERE id = head.id AND status = 'WAITING' OFFSET 0
    ) AS job
),
-- The jobs that have the keys of these lines, or are about to have them.
holder AS MATERIALIZED (
    SELECT old.id, job.*
    FROM old CROSS JOIN LATERAL (
        SELECT status, queue_name, worker_id FROM pgjobs_job
        WHERE old.waiting_for = 'lock'
            AND keys IS NOT NULL AND keys ->> 'lock' = old.keys ->> 'lock'
            AND status IN ('READY', 'RUNNING')
        UNION ALL
        (
            SELECT status, queue_name, worker_id FROM pgjobs_job
            WHERE old.waiting_for = 'limit'
                AND keys IS NOT NULL AND keys ->> 'limit_key' = old.keys ->> 'limit_key'
                AND status IN ('READY', 'RUNNING')
            LIMIT %(most_old)s
        )
    ) AS job
)
SELECT id, since
FROM old
WHERE NOT EXISTS (
    SELECT FROM holder
    WHERE holder.id = old.id AND EXISTS (
        SELECT FROM pgjobs_worker AS worker
        WHERE lease_until > clock_timestamp()
            AND CASE
                WHEN status = 'RUNNING' THEN worker.id = worker_id
                ELSE wanted = '' AND
                \ir ../../sql/reports/queue/taken.sql
            END
    )
    AND (
        status = 'RUNNING' OR NOT
        \ir ../../sql/reports/queue/paused.sql
    )
)
AND NOT EXISTS (
    SELECT FROM pgjobs_rate
    WHERE old.waiting_for = 'rate' AND key = old.keys ->> 'rate_key'
        AND opens_at > clock_timestamp() - %(patience)s::interval
        -- No rate that is kept opens later.
        AND opens_at < clock_timestamp() + %(patience)s::interval + make_interval(
            secs => least(1e9, greatest(
                (old.keys ->> 'rate_interval')::double precision
                    * (old.keys ->> 'rate_burst')::integer,
                (SELECT max(rate_seconds) FROM pgjobs_override)
            ))
        )
)
AND NOT EXISTS (
    SELECT FROM (
        SELECT id, life, status, waiting_for, run_after FROM pgjobs_job
        WHERE old.waiting_for = 'lock' AND keys IS NOT NULL
            AND keys ->> 'lock' BETWEEN old.keys ->> 'lock' AND old.keys ->> 'lock'
            AND (keys ->> 'is_ordered') IS DISTINCT FROM 'false'
            AND status IN ('WAITING', 'SCHEDULED')
        ORDER BY keys ->> 'lock', id LIMIT 1
    ) AS before
    WHERE before.id < old.id AND (
        before.waiting_for IN ('answer', 'event', 'jobs')
        -- As in pgjobs_is_asleep.
        OR before.status = 'SCHEDULED' AND EXISTS (
            SELECT FROM pgjobs_step
            WHERE job_id = before.id AND life = before.life
                AND finished_at = before.run_after
        )
    )
)
ORDER BY since, id
LIMIT %(most)s
