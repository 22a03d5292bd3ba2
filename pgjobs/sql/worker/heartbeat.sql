-- A worker's sign of life. If the row was deleted, it comes back.
INSERT INTO pgjobs_worker AS worker
    (id, name, host, pid, queues, excluded, slots, units, started_at, heartbeat_at,
     beating_since, lease_until, heartbeat_interval, holds_session_lock, lock_key, version,
     memory, manifest_id)
VALUES
    (%(id)s, %(name)s, %(host)s, %(pid)s, %(queues)s, %(excluded)s, %(slots)s, %(units)s,
     clock_timestamp(), clock_timestamp(), clock_timestamp(),
     clock_timestamp() + make_interval(secs => %(lease)s), %(heartbeat_interval)s,
     %(holds_session_lock)s, %(lock_key)s, %(version)s, %(memory)s,
     %(manifest_id)s::bigint)
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
    -- The echo tells all workers that notifications still reach them. PostgreSQL wakes
    -- the session of each worker for it, so a worker that has just heard one sends none.
    (SELECT pg_notify('pgjobs_echo', '') WHERE %(echoes)s)
