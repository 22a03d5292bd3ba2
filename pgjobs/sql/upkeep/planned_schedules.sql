-- A batch of the schedules whose next run is to come, behind an id, with what their plans
-- need: see queue/replanning.py.
SELECT schedule.id, schedule.name, schedule.every, schedule.cron, schedule.timezone,
    coalesce(schedule.start_at, least(schedule.origin_at, clock_timestamp())),
    schedule.start_at, schedule.end_at, schedule.anchor, schedule.overlap,
    schedule.catch_up, schedule.next_run_at, false, clock_timestamp()
FROM pgjobs_schedule AS schedule
WHERE schedule.id > %(after)s
    AND schedule.next_run_at > clock_timestamp()
    AND NOT schedule.paused
    AND NOT schedule.orphaned
ORDER BY schedule.id
LIMIT %(limit)s
