-- Queues that have had jobs to run for some time, and that no worker serves; not those
-- that are paused. Their names are found by hopping along indexes. Where a worker serves
-- all queues but some, only these are looked at.
WITH RECURSIVE living AS MATERIALIZED (
    SELECT queues, excluded FROM pgjobs_worker
    WHERE lease_until > statement_timestamp() AND wanted = ''
),
ready (queue_name, number) AS (
    (
        SELECT queue_name, 1 FROM pgjobs_job
        WHERE status = 'READY' AND NOT EXISTS (SELECT FROM living WHERE queues = '')
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > ready.queue_name
        ORDER BY queue_name LIMIT 1
    ), number + 1
    FROM ready WHERE queue_name IS NOT NULL AND number < %(most_queues)s
),
arrived (queue_name, number) AS (
    (
        SELECT queue_name, 1 FROM pgjobs_job
        WHERE line = 'arrived' AND NOT EXISTS (SELECT FROM living WHERE queues = '')
        ORDER BY line, queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE line = 'arrived' AND queue_name > arrived.queue_name
        ORDER BY line, queue_name LIMIT 1
    ), number + 1
    FROM arrived WHERE queue_name IS NOT NULL AND number < %(most_queues)s
),
aside (line, number) AS (
    (
        SELECT line, 1 FROM pgjobs_job
        WHERE line > 'unserved ' AND line < 'unserved!' ORDER BY line LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT line FROM pgjobs_job
        WHERE line > aside.line AND line < 'unserved!' ORDER BY line LIMIT 1
    ), number + 1
    FROM aside WHERE line IS NOT NULL AND number < %(most_queues)s
),
queue AS MATERIALIZED (
    SELECT queue_name FROM ready WHERE queue_name IS NOT NULL
    UNION
    SELECT queue_name FROM arrived WHERE queue_name IS NOT NULL
    UNION
    SELECT substr(line, 10) FROM aside WHERE line IS NOT NULL
    UNION
    SELECT unnest(string_to_array(excluded, ',')) FROM living WHERE queues = ''
),
unserved AS MATERIALIZED (
    SELECT queue_name FROM queue
    WHERE NOT EXISTS (
        SELECT FROM living WHERE
        \ir ../../sql/reports/queue/taken.sql
    )
    AND NOT
    \ir ../../sql/reports/queue/paused.sql
)
SELECT queue_name, sum(number)::bigint, min(since) AS since
FROM unserved
CROSS JOIN LATERAL (
    SELECT count(*) AS number, min(greatest(enqueued_at, run_after)) AS since FROM (
        SELECT enqueued_at, run_after FROM pgjobs_job
        WHERE status = 'READY' AND queue_name = unserved.queue_name LIMIT %(most_jobs)s
    ) AS looked_at
    UNION ALL
    SELECT count(*), min(greatest(enqueued_at, run_after)) FROM (
        SELECT enqueued_at, run_after FROM pgjobs_job
        WHERE line IN ('arrived', 'unserved ' || unserved.queue_name)
            AND queue_name = unserved.queue_name
        LIMIT %(most_jobs)s
    ) AS looked_at
) AS job
GROUP BY queue_name
HAVING min(since) < statement_timestamp() - make_interval(secs => %(patience)s)
ORDER BY since, queue_name
LIMIT %(most)s
