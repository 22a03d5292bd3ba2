-- Say in how many seconds the next schedule is due, or NULL if none is. Schedules that
-- count from the end of their run get their next time first, once it has ended (or is
-- gone). Some of them are looked at, behind an id; the last column says behind which id
-- to go on, or NULL at the end.
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
    SELECT schedule.id, next_run_at
    FROM (
        SELECT awaiting.id, last_job_id,
            coalesce(job.finished_at, clock_timestamp())
                + make_interval(secs => extract(epoch FROM every)::float8)
                AS next_run_at
        FROM awaiting
        LEFT JOIN LATERAL (
            SELECT id, finished_at FROM pgjobs_job WHERE id = last_job_id
            OFFSET 0  -- one look-up for each, however few jobs the planner expects
        ) AS job ON true
        WHERE last_job_id IS NOT NULL AND (job.id IS NULL OR job.finished_at IS NOT NULL)
        OFFSET 0
    ) AS run
    CROSS JOIN LATERAL (
        SELECT id, end_at FROM pgjobs_schedule AS locked
        WHERE locked.id = run.id
            AND locked.next_run_at IS NULL
            -- An equation would let PostgreSQL 15 walk the whole index of these.
            AND locked.last_job_id IS NOT DISTINCT FROM run.last_job_id
        FOR UPDATE SKIP LOCKED
    ) AS schedule
    WHERE end_at IS NULL OR next_run_at < end_at
),
planned AS (
    UPDATE pgjobs_schedule AS schedule
    SET next_run_at = (SELECT next_run_at FROM ended WHERE ended.id = schedule.id)
    WHERE id = ANY (ARRAY(SELECT id FROM ended))
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
