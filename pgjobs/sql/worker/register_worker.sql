-- Make the row of a worker that starts.
INSERT INTO pgjobs_worker
    (name, host, pid, queues, excluded, slots, units, started_at, heartbeat_at,
     beating_since, lease_until, heartbeat_interval, holds_session_lock, version,
     manifest_id)
VALUES
    (%(name)s, %(host)s, %(pid)s, %(queues)s, %(excluded)s, %(slots)s, %(units)s,
     clock_timestamp(), clock_timestamp(), clock_timestamp(),
     clock_timestamp() + make_interval(secs => %(lease)s), %(heartbeat_interval)s,
     false, %(version)s,
     (SELECT id FROM pgjobs_manifest WHERE id = %(manifest_id)s))
RETURNING id
