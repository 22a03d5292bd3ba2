-- Return the seconds until the next schedule is due, or NULL if none will be.
-- Before that, schedules that count from the end of their run get their next time if
-- the run has ended or is gone. `every` is used in seconds, because the length of a day
-- would depend on the session's time zone.
WITH ended AS MATERIALIZED (
    SELECT schedule.id,
        coalesce(job.finished_at, clock_timestamp())
            + make_interval(secs => extract(epoch FROM schedule.every)::float8)
            AS next_run_at
    FROM pgjobs_schedule AS schedule
    LEFT JOIN pgjobs_job AS job ON job.id = schedule.last_job_id
    WHERE schedule.next_run_at IS NULL
        AND schedule.anchor = 'end'
        AND schedule.last_job_id IS NOT NULL
        AND schedule.error = ''
        AND NOT schedule.paused
        AND NOT schedule.orphaned
        AND (job.id IS NULL OR job.finished_at IS NOT NULL)
    FOR UPDATE OF schedule SKIP LOCKED
),
planned AS (
    UPDATE pgjobs_schedule AS schedule SET next_run_at = ended.next_run_at
    FROM ended
    WHERE schedule.id = ended.id
        AND (schedule.end_at IS NULL OR ended.next_run_at < schedule.end_at)
    RETURNING schedule.next_run_at
)
SELECT extract(epoch FROM least(
    (SELECT min(next_run_at) FROM planned),
    (
        SELECT next_run_at FROM pgjobs_schedule
        WHERE next_run_at IS NOT NULL AND NOT paused AND NOT orphaned
        ORDER BY next_run_at LIMIT 1
    )
) - clock_timestamp())::float8
