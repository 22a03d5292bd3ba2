-- The jobs whose deadline is over, to find the one on which the chore fails.
SELECT id FROM pgjobs_job
WHERE keys ? 'deadline' AND finished_at IS NULL
    AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
        AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
    AND keys -> 'ends_at' <= to_jsonb(extract(epoch FROM statement_timestamp()))
    AND status <> 'RUNNING'
    AND NOT id = ANY (%(skipped)s::bigint[])
ORDER BY keys -> 'ends_at'
LIMIT %(limit)s
