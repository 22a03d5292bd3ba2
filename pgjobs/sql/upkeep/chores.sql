-- Say which chores have something to do, so that an idle worker sends one statement and
-- not one for each chore. The statement of each chore decides by itself. This one may
-- say yes too often, but never too rarely.
WITH silent AS MATERIALIZED (
    SELECT id FROM pgjobs_worker
    WHERE
        heartbeat_at < clock_timestamp() - least(
            lease_until - heartbeat_at,
            make_interval(secs => 1.3 * heartbeat_interval)
        )
        OR heartbeat_at > clock_timestamp()  -- the clock was set back
),
-- Note when nobody holds the session lock of a worker. If it does not give a sign of
-- life soon, it is dead: rescue.sql.
unlocked AS MATERIALIZED (
    UPDATE pgjobs_worker SET unlocked_at = clock_timestamp()
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_worker
        WHERE %(sees_locks)s
            AND id <> %(worker_id)s
            AND lock_key IS NOT NULL  -- or nothing at all would not be among no keys
            AND (unlocked_at IS NULL OR unlocked_at <= heartbeat_at)
            AND lock_key <> ALL (ARRAY(
                SELECT (classid::bigint << 32) | objid::bigint
                FROM pg_catalog.pg_locks
                WHERE locktype = 'advisory' AND objsubid = 1
                    AND database = (
                        SELECT oid FROM pg_catalog.pg_database
                        WHERE datname = current_database()
                    )
            ))
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING unlocked_at
),
-- The seconds until a worker without its lock is dead.
doubt AS MATERIALIZED (
    SELECT extract(
        epoch FROM min(unlocked_at) + interval '2 seconds' - clock_timestamp()
    )::float8 AS ends_in
    FROM (
        SELECT unlocked_at FROM unlocked
        UNION ALL
        SELECT unlocked_at FROM pgjobs_worker
        WHERE unlocked_at > heartbeat_at AND id <> %(worker_id)s
    ) AS noted
),
survey AS MATERIALIZED (
    SELECT
        -- A worker is silent, or the worker of running jobs has no row.
        EXISTS (SELECT FROM silent WHERE id <> %(worker_id)s)
        OR coalesce((SELECT ends_in <= 0 FROM doubt), false)
        OR EXISTS (
            SELECT
            FROM (
                SELECT lag(id, 1, 0::bigint) OVER (ORDER BY id) + 1, id - 1
                FROM pgjobs_worker
                UNION ALL
                SELECT coalesce(max(id), 0) + 1, 9223372036854775807
                FROM pgjobs_worker
            ) AS ownerless (first_id, last_id)
            CROSS JOIN LATERAL (
                SELECT FROM pgjobs_job
                WHERE first_id <= last_id AND status = 'RUNNING'
                    AND worker_id BETWEEN ownerless.first_id AND ownerless.last_id
                LIMIT 1
            ) AS job
        ) AS rescue,
        EXISTS (SELECT FROM pgjobs_job WHERE line IS NOT NULL)
        OR EXISTS (SELECT FROM pgjobs_note)
        OR EXISTS (
            SELECT FROM pgjobs_predecessor WHERE is_open AND id > 0
        ) AS admit,
        EXISTS (
            SELECT FROM pgjobs_job
            WHERE expires_at <= statement_timestamp()
                AND attempts = 0 AND finished_at IS NULL
        ) AS expire,
        EXISTS (SELECT FROM pgjobs_event WHERE handlers = 0) AS deliver_late,
        -- The seconds until then; 0 if a run has ended from whose end it counts.
        CASE
            WHEN EXISTS (
                SELECT FROM pgjobs_schedule
                WHERE next_run_at IS NULL AND anchor = 'end'
                    AND last_job_id IS NOT NULL
                    AND error = '' AND NOT paused AND NOT orphaned
            )
            THEN 0
            ELSE (
                SELECT extract(epoch FROM next_run_at - clock_timestamp())
                FROM pgjobs_schedule
                WHERE next_run_at IS NOT NULL AND NOT paused AND NOT orphaned
                ORDER BY next_run_at LIMIT 1
            )
        END::float8 AS next_fire,
        %(looks)s
            AND EXISTS (SELECT FROM pgjobs_job WHERE status = 'READY') AS has_ready,
        -- The seconds until then.
        extract(epoch FROM least(
            (
                SELECT run_after FROM pgjobs_job WHERE status = 'SCHEDULED'
                ORDER BY run_after LIMIT 1
            ),
            (
                SELECT opens_at FROM pgjobs_rate WHERE opens_at IS NOT NULL
                ORDER BY opens_at LIMIT 1
            )
        ) - clock_timestamp())::float8 AS next_due,
        -- How many are alive.
        (
            SELECT count(*) FROM pgjobs_worker
            WHERE heartbeat_at
                > clock_timestamp() - make_interval(secs => 2 * heartbeat_interval)
        ) AS workers,
        -- When it was asked, by the server's clock.
        extract(epoch FROM statement_timestamp())::float8 AS at,
        -- Several installations may share a database, each in a schema of its own.
        'pgjobs_worker'::regclass::oid::bigint AS installation
),
-- Whether no worker has anything to do, and this one is not silent itself.
verdict AS MATERIALIZED (
    SELECT
        %(looks)s AND NOT (
            rescue OR admit OR expire OR deliver_late OR has_ready
            OR coalesce(next_fire <= 0, false) OR coalesce(next_due <= 0, false)
            OR EXISTS (SELECT FROM silent)
            OR (SELECT ends_in IS NOT NULL FROM doubt)
        ) AS is_idle
    FROM survey
)
SELECT
    rescue, admit, expire, deliver_late, next_fire, has_ready, next_due, workers, at,
    installation, (SELECT ends_in FROM doubt) AS doubt_ends_in, is_idle,
    -- Then the others need not ask so soon: worker/upkeep/survey.py.
    (
        SELECT pg_notify('pgjobs_survey', concat_ws(
            ' ',
            installation,
            %(worker_id)s::bigint,
            floor(1000 * at)::bigint,
            CASE WHEN next_fire < 1e9 THEN floor(1000 * next_fire)::bigint ELSE -1 END,
            CASE WHEN next_due < 1e9 THEN floor(1000 * next_due)::bigint ELSE -1 END
        ))
        WHERE is_idle AND workers > 1 AND %(tells)s
    )
FROM survey CROSS JOIN verdict
