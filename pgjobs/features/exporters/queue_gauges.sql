-- Count the unfinished jobs of each queue, and the workers, for a scrape of metrics. Each
-- part reads one partial index, so that finished jobs cost nothing.
WITH live AS (
    SELECT queue_name, 'READY' AS state, count(*) AS number,
        min(greatest(enqueued_at, run_after)) AS since
    FROM pgjobs_job WHERE status = 'READY' GROUP BY queue_name
    UNION ALL
    SELECT queue_name, 'SCHEDULED', count(*), NULL
    FROM pgjobs_job WHERE status = 'SCHEDULED' GROUP BY queue_name
    UNION ALL
    SELECT queue_name, 'WAITING', count(*), NULL
    FROM pgjobs_job WHERE status = 'WAITING' AND line IS NOT NULL GROUP BY queue_name
    UNION ALL
    SELECT queue_name, 'RUNNING', count(*), NULL
    FROM pgjobs_job WHERE status = 'RUNNING' GROUP BY queue_name
)
(
    SELECT 'jobs' AS kind, queue_name AS name, state, number::float8,
        extract(epoch FROM clock_timestamp() - since)::float8 AS seconds
    FROM live ORDER BY number DESC, queue_name, state LIMIT %(most)s
)
UNION ALL
(
    SELECT 'paused', name, '', (paused_at IS NOT NULL)::int, NULL
    FROM pgjobs_queue ORDER BY name LIMIT %(most)s
)
UNION ALL
SELECT 'workers', '', state, count(id), NULL
FROM (VALUES ('alive', true), ('dead', false)) AS possible (state, is_alive)
LEFT JOIN pgjobs_worker ON (lease_until > clock_timestamp()) = is_alive
GROUP BY state
