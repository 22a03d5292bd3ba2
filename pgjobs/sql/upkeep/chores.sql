-- Say which chores have something to do, so that an idle worker sends one statement and
-- not one for each chore. The statement of each chore decides by itself. This one may
-- say yes too often, but never too rarely.
SELECT
    -- rescue: a worker is silent, or the worker of running jobs has no row
    EXISTS (
        SELECT FROM pgjobs_worker
        WHERE id <> %(worker_id)s
            AND (
                heartbeat_at < clock_timestamp() - least(
                    lease_until - heartbeat_at,
                    make_interval(secs => 1.3 * heartbeat_interval)
                )
                OR heartbeat_at > clock_timestamp()  -- the clock was set back
            )
    )
    OR EXISTS (
        SELECT
        FROM (
            SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1
            FROM pgjobs_worker
            UNION ALL
            SELECT coalesce(max(id), 0) + 1, 9223372036854775807 FROM pgjobs_worker
        ) AS ownerless (first_id, last_id)
        CROSS JOIN LATERAL (
            SELECT FROM pgjobs_job
            WHERE first_id <= last_id AND status = 'RUNNING'
                AND worker_id BETWEEN ownerless.first_id AND ownerless.last_id
            LIMIT 1
        ) AS job
    ),
    -- admit
    EXISTS (SELECT FROM pgjobs_job WHERE line IS NOT NULL)
    OR EXISTS (SELECT FROM pgjobs_note)
    OR EXISTS (SELECT FROM pgjobs_predecessor WHERE is_open AND id > 0),
    -- expire
    EXISTS (
        SELECT FROM pgjobs_job
        WHERE expires_at <= statement_timestamp()
            AND attempts = 0 AND finished_at IS NULL
    ),
    -- deliver_late
    EXISTS (SELECT FROM pgjobs_event WHERE handlers = 0),
    -- next_fire: the seconds until then; 0 if a run has ended from whose end it counts
    CASE
        WHEN EXISTS (
            SELECT FROM pgjobs_schedule
            WHERE next_run_at IS NULL AND anchor = 'end' AND last_job_id IS NOT NULL
                AND error = '' AND NOT paused AND NOT orphaned
        )
        THEN 0
        ELSE (
            SELECT extract(epoch FROM next_run_at - clock_timestamp())
            FROM pgjobs_schedule
            WHERE next_run_at IS NOT NULL AND NOT paused AND NOT orphaned
            ORDER BY next_run_at LIMIT 1
        )
    END::float8,
    -- has_ready
    %(looks)s AND EXISTS (SELECT FROM pgjobs_job WHERE status = 'READY'),
    -- next_due: the seconds until then
    extract(epoch FROM least(
        (
            SELECT run_after FROM pgjobs_job WHERE status = 'SCHEDULED'
            ORDER BY run_after LIMIT 1
        ),
        (
            SELECT opens_at FROM pgjobs_rate WHERE opens_at IS NOT NULL
            ORDER BY opens_at LIMIT 1
        )
    ) - clock_timestamp())::float8,
    -- workers: how many are alive
    (
        SELECT count(*) FROM pgjobs_worker
        WHERE heartbeat_at
            > clock_timestamp() - make_interval(secs => 2 * heartbeat_interval)
    )
