-- A batch of the schedules whose next run is to come, behind an id, with what their plans
-- need: see nearer_run of queue.py.
SELECT schedule.id, schedule.name, schedule.every, schedule.cron, schedule.timezone,
    coalesce(schedule.start_at, schedule.origin_at), schedule.start_at, schedule.end_at,
    schedule.anchor, schedule.overlap, schedule.catch_up, schedule.next_run_at,
    false, clock_timestamp()
FROM pgjobs_schedule AS schedule
WHERE schedule.id > %(after)s
    AND schedule.next_run_at > clock_timestamp()
    AND NOT schedule.paused
    AND NOT schedule.orphaned
ORDER BY schedule.id
LIMIT %(limit)s
