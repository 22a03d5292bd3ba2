-- Whether no worker has lived for some time, although a job is due or one was within a
-- day: how the last one ended, and when. Nothing where it has drained its queues: others
-- like it will follow.
WITH last AS MATERIALIZED (
    SELECT name, ended_at, how FROM (
        (SELECT name, ended_at, how FROM pgjobs_endedworker ORDER BY ended_at DESC LIMIT 1)
        UNION ALL
        (
            SELECT name, heartbeat_at, 'lost' FROM pgjobs_worker
            ORDER BY heartbeat_at DESC LIMIT 1
        )
    ) AS known
    ORDER BY ended_at DESC LIMIT 1
)
SELECT name, ended_at, how
FROM (SELECT) AS once LEFT JOIN last ON true
WHERE NOT EXISTS (
    SELECT FROM pgjobs_worker
    WHERE lease_until > statement_timestamp() - make_interval(secs => %(patience)s)
)
AND coalesce(
    how <> 'drained' AND ended_at < statement_timestamp() - make_interval(secs => %(patience)s),
    true
)
AND (
    EXISTS (
        SELECT FROM (
            (
                SELECT run_after, enqueued_at FROM pgjobs_job
                WHERE status = 'READY' ORDER BY queue_name LIMIT %(most)s
            )
            UNION ALL
            (
                SELECT run_after, enqueued_at FROM pgjobs_job
                WHERE status = 'SCHEDULED' ORDER BY run_after LIMIT 1
            )
            UNION ALL
            (
                SELECT run_after, enqueued_at FROM pgjobs_job
                WHERE line = 'arrived' ORDER BY line, queue_name LIMIT %(most)s
            )
        ) AS job
        WHERE greatest(enqueued_at, run_after)
            < statement_timestamp() - make_interval(secs => %(patience)s)
    )
    OR EXISTS (
        SELECT FROM pgjobs_figure
        WHERE span = 60 AND start > statement_timestamp() - interval '1 day'
    )
)
