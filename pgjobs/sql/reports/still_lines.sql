-- Lines that stand still: the first job that a worker would take has waited long, and
-- no job of the same key runs or will run next. What a living worker has, and what is
-- READY in a queue that is served, is on its way. The lines are found by hopping along
-- the index. Their first job, and since when it waits.
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
head AS MATERIALIZED (
    SELECT found.id
    FROM (
        SELECT array_agg(line) AS lines, array_agg(1) AS ones
        FROM hop WHERE line IS NOT NULL
    ) AS all_lines
    CROSS JOIN LATERAL pgjobs_heads(lines, ones) AS found
    WHERE lines IS NOT NULL
),
old AS MATERIALIZED (
    SELECT job.id, job.waiting_for, job.keys, greatest(enqueued_at, run_after) AS since
    FROM head
    CROSS JOIN LATERAL (
        SELECT * FROM pgjobs_job WHERE id = head.id OFFSET 0  -- one after the other
    ) AS job
    WHERE greatest(enqueued_at, run_after) < clock_timestamp() - %(patience)s::interval
    ORDER BY since
    LIMIT %(most_old)s
)
SELECT old.id, old.since
FROM old
WHERE CASE old.waiting_for
    WHEN 'lock' THEN NOT EXISTS (
        SELECT FROM pgjobs_job AS other
        WHERE other.keys IS NOT NULL AND other.keys ->> 'lock' = old.keys ->> 'lock'
            AND status IN ('READY', 'RUNNING')
            AND CASE status
                WHEN 'READY' THEN pgjobs_is_served(queue_name)
                ELSE EXISTS (
                    SELECT FROM pgjobs_worker
                    WHERE id = other.worker_id AND lease_until > clock_timestamp()
                )
            END
    )
    WHEN 'limit' THEN NOT EXISTS (
        SELECT FROM pgjobs_job AS other
        WHERE other.keys IS NOT NULL
            AND other.keys ->> 'limit_key' = old.keys ->> 'limit_key'
            AND status IN ('READY', 'RUNNING')
            AND CASE status
                WHEN 'READY' THEN pgjobs_is_served(queue_name)
                ELSE EXISTS (
                    SELECT FROM pgjobs_worker
                    WHERE id = other.worker_id AND lease_until > clock_timestamp()
                )
            END
    )
    WHEN 'rate' THEN NOT EXISTS (
        SELECT FROM pgjobs_rate
        WHERE key = old.keys ->> 'rate_key'
            AND opens_at > clock_timestamp() - %(patience)s::interval
            -- No rate that is kept opens later.
            AND opens_at < clock_timestamp() + %(patience)s::interval + make_interval(
                secs => least(1e9, (old.keys ->> 'rate_interval')::double precision
                    * (old.keys ->> 'rate_burst')::integer)
            )
    )
    ELSE false
END
ORDER BY old.since, old.id
LIMIT %(most)s
