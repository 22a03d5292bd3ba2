-- Say in how many seconds the next schedule is due, or NULL if none is. Schedules that
-- count from the end of their run get their next time first, once it has ended (or is
-- gone). Some of them are looked at, behind an id; the last column says behind which id
-- to go on, or NULL at the end.
-- The ids are compared with arrays, too, as in fire.sql.
-- In seconds: the length of an interval of days would depend on the session's time zone.
WITH awaiting AS MATERIALIZED (
    SELECT id, last_job_id, every FROM pgjobs_schedule
    WHERE next_run_at IS NULL
        AND anchor = 'end'
        AND id > %(after)s
        AND error = ''
        AND NOT paused
        AND NOT orphaned
    ORDER BY id
    LIMIT %(limit)s
),
ended AS MATERIALIZED (
    SELECT schedule.id,
        coalesce(job.finished_at, clock_timestamp())
            + make_interval(secs => extract(epoch FROM schedule.every)::float8)
            AS next_run_at
    FROM awaiting
    JOIN pgjobs_schedule AS schedule ON schedule.id = awaiting.id
    LEFT JOIN pgjobs_job AS job ON job.id = schedule.last_job_id
    WHERE schedule.id = ANY (ARRAY(SELECT id FROM awaiting))
        AND schedule.next_run_at IS NULL
        -- An equation would let PostgreSQL 15 walk the whole index of these.
        AND schedule.last_job_id IS NOT DISTINCT FROM awaiting.last_job_id
        AND awaiting.last_job_id IS NOT NULL
        AND (job.id IS NULL OR job.finished_at IS NOT NULL)
    FOR UPDATE OF schedule SKIP LOCKED
),
planned AS (
    UPDATE pgjobs_schedule AS schedule SET next_run_at = ended.next_run_at
    FROM ended
    WHERE schedule.id = ended.id
        AND schedule.id = ANY (ARRAY(SELECT id FROM ended))
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
) - clock_timestamp())::float8,
    CASE
        WHEN (SELECT count(*) FROM awaiting) = %(limit)s
            THEN (SELECT max(id) FROM awaiting)
    END
