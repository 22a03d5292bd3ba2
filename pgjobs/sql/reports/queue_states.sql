-- How many unfinished jobs the queues have, and since when the oldest one could run. Names
-- and priorities are found by hopping along an index. Of each status no more than
-- %(most)s jobs are counted, of which READY ones are shared among the queues.
WITH RECURSIVE hop (name, number) AS (
    (
        SELECT queue_name, 1 FROM pgjobs_job
        WHERE status = 'READY' AND %(queues)s::text[] IS NULL
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > hop.name
        ORDER BY queue_name LIMIT 1
    ), number + 1
    FROM hop WHERE hop.name IS NOT NULL AND number < %(most_queues)s
),
queue AS MATERIALIZED (
    SELECT name FROM hop WHERE name IS NOT NULL
    UNION ALL
    SELECT unnest(%(queues)s::text[])
),
share AS MATERIALIZED (
    SELECT greatest(100, %(most)s / greatest(count(*), 1)) AS most FROM queue
),
ready AS (
    SELECT queue.name, sum(job.number) AS number, min(job.since) AS since,
        bool_or(job.number = (SELECT most FROM share)) AS is_capped
    FROM queue CROSS JOIN LATERAL (
        WITH RECURSIVE step (units, priority) AS (
            SELECT -1::bigint, 0
            UNION ALL
            SELECT job.* FROM step CROSS JOIN LATERAL (
                -- In the order of the index: down the priorities of each number of units.
                (
                    SELECT step.units, priority FROM pgjobs_job
                    WHERE status = 'READY' AND queue_name = queue.name
                        AND coalesce(process_units, 0) = step.units
                        AND priority < step.priority
                    ORDER BY priority DESC LIMIT 1
                )
                UNION ALL
                (
                    SELECT coalesce(process_units, 0), priority FROM pgjobs_job
                    WHERE status = 'READY' AND queue_name = queue.name
                        AND coalesce(process_units, 0) > step.units
                    ORDER BY coalesce(process_units, 0), priority DESC LIMIT 1
                )
                LIMIT 1
            ) AS job
        )
        SELECT
            (
                SELECT count(*) FROM (
                    SELECT FROM pgjobs_job
                    WHERE status = 'READY' AND queue_name = queue.name
                        AND coalesce(process_units, 0) = step.units
                        AND priority = step.priority
                    LIMIT (SELECT most FROM share)
                ) AS counted
            ) AS number,
            -- The next ones in claim order; a job that was tried again may have come later.
            (
                SELECT min(since) FROM (
                    SELECT greatest(enqueued_at, run_after) AS since FROM pgjobs_job
                    WHERE status = 'READY' AND queue_name = queue.name
                        AND coalesce(process_units, 0) = step.units
                        AND priority = step.priority
                    ORDER BY turn LIMIT 100
                ) AS first
            ) AS since
        FROM step WHERE units >= 0
    ) AS job
    GROUP BY queue.name
)
SELECT name, 'READY', number, since, is_capped FROM ready
UNION ALL
SELECT queue_name, 'SCHEDULED', count(*), NULL, sum(count(*)) OVER () >= %(most)s
FROM (
    SELECT queue_name FROM pgjobs_job WHERE status = 'SCHEDULED'
    ORDER BY run_after LIMIT %(most)s
) AS job
GROUP BY queue_name
UNION ALL
SELECT queue_name, 'WAITING', count(*), NULL, sum(count(*)) OVER () >= %(most)s
FROM (
    SELECT queue_name FROM pgjobs_job
    -- CASE: see IS_WAITING in models/job_set.py.
    WHERE CASE status WHEN 'WAITING' THEN true ELSE false END AND line IS NOT NULL
    ORDER BY line LIMIT %(most)s
) AS job
GROUP BY queue_name
UNION ALL
SELECT queue_name, 'RUNNING', count(*), NULL, sum(count(*)) OVER () >= %(most)s
FROM (
    SELECT queue_name FROM pgjobs_job WHERE status = 'RUNNING'
    ORDER BY worker_id LIMIT %(most)s
) AS job
GROUP BY queue_name
UNION ALL
SELECT queue_name, 'ARRIVED', count(*), min(enqueued_at), sum(count(*)) OVER () >= %(most)s
FROM (
    (
        SELECT queue_name, enqueued_at FROM pgjobs_job
        WHERE line = 'arrived' ORDER BY line, queue_name LIMIT %(most)s
    )
    UNION ALL
    (
        SELECT queue_name, enqueued_at FROM pgjobs_job
        WHERE line > 'unserved ' AND line < 'unserved!' ORDER BY line LIMIT %(most)s
    )
) AS job
GROUP BY queue_name
