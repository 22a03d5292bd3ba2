-- The schedules that are due, with the values that their plans need.
-- statement_timestamp: it does not change meanwhile, so that the index ends the search.
SELECT schedule.id, schedule.name, schedule.every, schedule.cron, schedule.timezone,
    coalesce(schedule.start_at, schedule.origin_at), schedule.start_at, schedule.end_at,
    schedule.anchor, schedule.overlap, schedule.catch_up, schedule.next_run_at,
    EXISTS (
        SELECT FROM pgjobs_job
        WHERE id = schedule.last_job_id AND finished_at IS NULL
        OFFSET 0  -- asked for each: no join with all jobs
    ) AS is_unfinished,
    clock_timestamp() AS now, schedule.last_job_id
FROM pgjobs_schedule AS schedule
WHERE schedule.next_run_at IS NOT NULL
    AND schedule.next_run_at <= statement_timestamp()
    AND NOT schedule.paused
    AND NOT schedule.orphaned
ORDER BY schedule.next_run_at, schedule.id
LIMIT %(limit)s
