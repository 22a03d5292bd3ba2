-- The sessions that hold an advisory lock which pgjobs holds only for moments. The roles of
-- a database share these locks. What a session of another role does, and since when, a
-- role may not see: then these columns are NULL.
-- A lock of two numbers has objsubid 2. A lock of one number has 1, and its upper half
-- as classid.
SELECT held.pid, kind.name, coalesce(activity.usename, ''),
    coalesce(activity.application_name, ''),
    extract(epoch FROM clock_timestamp() - activity.xact_start)::float8
FROM (
    VALUES ('admission', 1885825643, 0, 2), ('dependencies', 1885825636, 0, 2),
        ('late events', 0, 1885825637, 1), ('declarations', 0, 1885825651, 1),
        ('limited queue', 1885825649, NULL, 2), ('process units', 1885825653, NULL, 2),
        ('failover', 1885825652, 0, 2), ('notifications', 1885825646, NULL, 2)
) AS kind (name, class, number, size)
JOIN pg_locks AS held
    ON held.classid = kind.class::oid AND held.objsubid = kind.size
    AND (kind.number IS NULL OR held.objid = kind.number::oid)
LEFT JOIN pg_stat_activity AS activity ON activity.pid = held.pid
WHERE held.locktype = 'advisory' AND held.granted AND held.pid <> pg_backend_pid()
    AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    -- Workers share it. An INSERT has it alone for a moment and lets none of them wait.
    AND (
        kind.name <> 'notifications'
        OR held.mode = 'ExclusiveLock' AND EXISTS (
            SELECT FROM pg_locks AS waiting
            WHERE NOT waiting.granted AND waiting.locktype = 'advisory'
                AND (waiting.database, waiting.classid, waiting.objid, waiting.objsubid)
                    = (held.database, held.classid, held.objid, held.objsubid)
        )
    )
ORDER BY held.pid, kind.name
LIMIT %(limit)s
