-- A worker's sign of life. If the row was deleted, it comes back.
INSERT INTO pgjobs_worker AS worker
    (id, name, host, pid, queues, excluded, slots, units, started_at, heartbeat_at,
     beating_since, lease_until, heartbeat_interval, holds_session_lock, lock_key, version,
     memory, children, manifest_id, wanted)
VALUES
    (%(id)s, %(name)s, %(host)s, %(pid)s, %(queues)s, %(excluded)s, %(slots)s, %(units)s,
     clock_timestamp(), clock_timestamp(), clock_timestamp(),
     clock_timestamp() + make_interval(secs => %(lease)s), %(heartbeat_interval)s,
     %(holds_session_lock)s, %(lock_key)s, %(version)s, %(memory)s,
     %(children)s, %(manifest_id)s::bigint, %(wanted)s)
ON CONFLICT (id) DO UPDATE SET
    heartbeat_at = clock_timestamp(),
    beating_since = CASE
        WHEN worker.heartbeat_at < clock_timestamp()
                - make_interval(secs => 2 * worker.heartbeat_interval)
            THEN clock_timestamp()
        -- The clock was set back.
        WHEN worker.heartbeat_at > clock_timestamp() THEN clock_timestamp()
        ELSE worker.beating_since
    END,
    lease_until = excluded.lease_until,
    holds_session_lock = excluded.holds_session_lock,
    lock_key = excluded.lock_key,
    memory = excluded.memory,
    children = excluded.children,
    manifest_id = excluded.manifest_id
RETURNING
    -- The jobs that were asked to stop, in case the notification was lost: see
    -- cancel_requests.sql.
    ARRAY(
        SELECT lease_token FROM pgjobs_job
        WHERE id = ANY (%(held)s::bigint[])
            AND worker_id = %(id)s
            AND cancel_requested_at IS NOT NULL
    ),
    -- Whether another worker does the upkeep for all: pgjobs/worker/upkeep/survey.py. Of
    -- two that do, the one with the lower number goes on. The clock may have been set
    -- back since. The lock of a worker that has died is free: it is tried, because a list
    -- of all locks would take longer.
    EXISTS (
        SELECT FROM pgjobs_worker AS other
        WHERE id <> %(id)s AND (id < %(id)s OR NOT %(leads)s::boolean)
            AND CASE
                WHEN leads_until IS NULL
                    OR leads_until NOT BETWEEN clock_timestamp()
                        AND clock_timestamp() + make_interval(secs => heartbeat_interval)
                    THEN false
                WHEN lock_key IS NULL THEN true
                WHEN pg_try_advisory_lock(lock_key) THEN NOT pg_advisory_unlock(lock_key)
                ELSE true
            END
    ),
    -- Whether there are so few workers that they watch one another more often.
    (
        SELECT count(*) < 4
        FROM (SELECT FROM pgjobs_worker WHERE id <> %(id)s LIMIT 4) AS others
    ),
    -- What operators want of it. A worker whose row was deleted remembers that.
    worker.wanted,
    -- For an idle worker that asks nothing else.
    %(with_ready)s::boolean AND EXISTS (SELECT FROM pgjobs_job WHERE status = 'READY'),
    CASE WHEN %(with_ready)s::boolean THEN (
\ir claim/next_due_of_all.sql
    ) END,
    -- The echo tells all workers that notifications still reach them. PostgreSQL wakes
    -- the session of each worker for it, so a worker that has just heard one sends none.
    (SELECT pg_notify('pgjobs_echo', '') WHERE %(echoes)s)
