-- Say where the first READY job stands before each mark, and which queues without a mark
-- have some: the next by name after each queue that has one. See `worker/marks.py`.
WITH mark (name, priority, turn) AS MATERIALIZED (
    SELECT * FROM unnest(
        %(names)s::text[], %(priorities)s::int[], %(turns)s::bigint[]
    )
),
gap (after, before) AS MATERIALIZED (
    SELECT lag(name, 1, '') OVER (ORDER BY name), name
    FROM (SELECT DISTINCT name FROM mark) AS queue
),
found (name, priority, turn) AS MATERIALIZED (
    SELECT mark.name, mark.priority, job.turn
    FROM mark CROSS JOIN LATERAL (
        SELECT turn FROM pgjobs_job
        WHERE status = 'READY' AND queue_name = mark.name
            AND priority = mark.priority AND turn < mark.turn
        ORDER BY turn LIMIT 1
        -- What somebody holds would have each look begin at it in vain.
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    UNION ALL
    SELECT job.queue_name, job.priority, 0
    FROM gap CROSS JOIN LATERAL (
        SELECT queue_name, priority FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > gap.after AND queue_name < gap.before
        ORDER BY queue_name LIMIT 1
    ) AS job
    UNION ALL
    (
        SELECT queue_name, priority, 0 FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > (SELECT max(name) FROM mark)
        ORDER BY queue_name LIMIT 1
    )
)
SELECT (SELECT array_agg(name) FROM found),
    (SELECT array_agg(priority) FROM found),
    (SELECT array_agg(turn) FROM found),
    extract(epoch FROM clock_timestamp() - statement_timestamp())::float8
