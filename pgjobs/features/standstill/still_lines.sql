-- Lines that stand still: the first job that a worker would take has waited long, and
-- no job of the same key runs or will run next. What a living worker has, and what is
-- READY in a queue that is served, is on its way. The lines are found by hopping along
-- the index. Their first job, and since when it waits. This calls no function of ours, so
-- that any role that may read the tables may ask.
WITH RECURSIVE hop (kind, line, number) AS (
    SELECT kind, (
        SELECT line FROM pgjobs_job WHERE line > kind || ' ' AND line < kind || '!'
        ORDER BY line LIMIT 1
    ), 1
    FROM unnest(ARRAY['lock', 'mutex', 'limit', 'rate']) AS kind
    UNION ALL
    SELECT kind, (
        SELECT line FROM pgjobs_job WHERE line > hop.line AND line < kind || '!'
        ORDER BY line LIMIT 1
    ), number + 1
    FROM hop WHERE line IS NOT NULL AND number < %(most_lines)s
),
-- The first job of each queue in the line, of some queues.
first AS MATERIALIZED (
    SELECT hop.line, job.*
    FROM hop CROSS JOIN LATERAL (
        WITH RECURSIVE place (queue_name, number) AS (
            (
                SELECT queue_name, 1 FROM pgjobs_job
                WHERE line = hop.line ORDER BY line, queue_name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT queue_name FROM pgjobs_job
                WHERE line = hop.line AND queue_name > place.queue_name
                ORDER BY line, queue_name LIMIT 1
            ), number + 1
            FROM place WHERE queue_name IS NOT NULL AND number < %(most_queues)s
        )
        SELECT head.*
        FROM place CROSS JOIN LATERAL (
            SELECT id, queue_name, priority, turn, waiting_for, keys,
                greatest(enqueued_at, run_after) AS since
            FROM pgjobs_job
            WHERE line = hop.line AND queue_name = place.queue_name
            ORDER BY line, queue_name, priority DESC, turn LIMIT 1
        ) AS head
    ) AS job
    WHERE hop.line IS NOT NULL
),
served AS MATERIALIZED (
    SELECT queue_name FROM (SELECT DISTINCT queue_name FROM first OFFSET 0) AS queue
    WHERE
    \ir ../../sql/reports/queue/served.sql
),
head AS MATERIALIZED (
    SELECT DISTINCT ON (line) id, waiting_for, keys, since
    FROM first JOIN served USING (queue_name)
    ORDER BY line, priority DESC, turn
),
old AS MATERIALIZED (
    SELECT * FROM head
    WHERE since < clock_timestamp() - %(patience)s::interval
    ORDER BY since
    LIMIT %(most_old)s
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
                ELSE
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
ORDER BY since, id
LIMIT %(most)s
