-- Return the seconds until the next job of these queues is due, or a rate has a token.
SELECT extract(epoch FROM least(
    (
        SELECT min(run_after) FROM pgjobs_job
        WHERE status = 'SCHEDULED'
            AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
    ),
    (SELECT min(opens_at) FROM pgjobs_rate)
) - clock_timestamp())::float8
