-- Return the seconds until the next job of these queues is due, or a rate has a token.
SELECT extract(epoch FROM least(
    (
        SELECT min(run_after) FROM pgjobs_job
        WHERE status = 'SCHEDULED'
            AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
    ),
    (SELECT min(opens_at) FROM pgjobs_rate),
    (
        SELECT min(due_at) FROM pgjobs_waitnote AS note
        WHERE %(queues)s::text[] IS NULL OR EXISTS (
            SELECT FROM pgjobs_job
            WHERE id = note.job_id AND queue_name = ANY (%(queues)s::text[])
        )
    ),
    (
        SELECT to_timestamp((keys -> 'ends_at')::float8) FROM pgjobs_job
        WHERE keys ? 'ends_at' AND finished_at IS NULL AND status <> 'RUNNING'
            AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
        ORDER BY keys -> 'ends_at' LIMIT 1
    )
) - clock_timestamp())::float8
