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
-- Store when the session lock of a worker was seen to be free. If the worker does not
-- give a sign of life soon, it is dead: rescue.sql.
unlocked AS MATERIALIZED (
    UPDATE pgjobs_worker SET unlocked_at = clock_timestamp()
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_worker
        WHERE id <> %(worker_id)s
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
dying AS MATERIALIZED (
    SELECT extract(
        epoch FROM min(unlocked_at) + interval '2 seconds' - clock_timestamp()
    )::float8 AS ends_in
    FROM (
        SELECT unlocked_at FROM unlocked
        UNION ALL
        SELECT unlocked_at FROM pgjobs_worker
        WHERE unlocked_at > heartbeat_at AND id <> %(worker_id)s
    ) AS silent_worker
),
-- The others leave the upkeep to this worker for a while. Not if it is silent itself, or
-- they would not look for its jobs.
leader AS (
    UPDATE pgjobs_worker
    SET leads_until = clock_timestamp() + make_interval(secs => %(leads_for)s)
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_worker
        WHERE id = %(worker_id)s AND id NOT IN (SELECT id FROM silent)
            AND (SELECT count(*) > 1 FROM pgjobs_worker)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
),
survey AS MATERIALIZED (
    SELECT
        -- Each chore brings its own question, and may ask the tables above.
        ARRAY[NULL /*questions*/]::float8[] AS answers,
        %(with_ready)s
            AND EXISTS (SELECT FROM pgjobs_job WHERE status = 'READY') AS has_ready,
        (
\ir ../worker/claim/next_due_of_all.sql
        ) AS next_due
)
SELECT answers, has_ready, next_due, (SELECT ends_in FROM dying) AS next_death_in
FROM survey
