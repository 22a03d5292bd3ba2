-- Queues whose first jobs have waited long for an admission to look at them, although a
-- worker has served the queue all the time: the first job, since when the oldest of some
-- waits, and how many of those have waited so long. Jobs that come after others are
-- looked at in whatever queue. The queues are found by hopping along the index.
WITH RECURSIVE hop (line, queue_name, number) AS (
    (
        SELECT line, queue_name, 1 FROM pgjobs_job
        WHERE line IN ('arrived', 'unlinked') ORDER BY line, queue_name LIMIT 1
    )
    UNION ALL
    SELECT next.line, next.queue_name, hop.number + 1
    FROM hop CROSS JOIN LATERAL (
        SELECT line, queue_name FROM (
            (
                SELECT line, queue_name FROM pgjobs_job
                WHERE line = hop.line AND queue_name > hop.queue_name
                ORDER BY line, queue_name LIMIT 1
            )
            UNION ALL
            (
                SELECT line, queue_name FROM pgjobs_job
                WHERE hop.line = 'arrived' AND line = 'unlinked'
                ORDER BY line, queue_name LIMIT 1
            )
        ) AS other
        LIMIT 1
    ) AS next
    WHERE hop.number < %(most_queues)s
),
old AS MATERIALIZED (
    SELECT hop.line, hop.queue_name, job.*
    FROM hop CROSS JOIN LATERAL (
        SELECT (array_agg(id ORDER BY priority DESC, turn))[1] AS first, min(since) AS since,
            count(*) FILTER (
                WHERE since < clock_timestamp() - %(patience)s::interval
            ) AS number
        FROM (
            SELECT id, priority, turn, greatest(enqueued_at, run_after) AS since
            FROM pgjobs_job
            WHERE line = hop.line AND queue_name = hop.queue_name
            ORDER BY line, queue_name, priority DESC, turn LIMIT %(most_jobs)s
        ) AS waiting
    ) AS job
    WHERE job.number > 0
)
SELECT first, since, number FROM old
WHERE EXISTS (
    SELECT FROM pgjobs_worker
    WHERE lease_until > clock_timestamp()
        AND started_at < clock_timestamp() - %(patience)s::interval
        AND (
            old.line = 'unlinked' OR
            \ir ../../sql/reports/queue/taken.sql
        )
)
AND (
    old.line = 'unlinked' OR NOT
    \ir ../../sql/reports/queue/paused.sql
)
ORDER BY since
LIMIT %(most_queues)s
