-- Make the row of a worker that starts, and note when its version was first seen.
WITH first AS (
    INSERT INTO pgjobs_codeversion (name)
    SELECT %(version)s::text
    WHERE %(version)s::text <> ''
        AND NOT EXISTS (SELECT FROM pgjobs_codeversion WHERE name = %(version)s::text)
    ON CONFLICT (name) DO NOTHING
)
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
