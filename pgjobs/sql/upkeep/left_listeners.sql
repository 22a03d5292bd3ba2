-- The sessions that listen for workers without a row, that is, dead ones: of a process or
-- a host that is frozen, say. PostgreSQL keeps each notification until all of them have
-- taken it; when its queue is full, every COMMIT that notifies fails.
SELECT pid
FROM pg_catalog.pg_locks
WHERE locktype = 'advisory'
    AND database = (
        SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()
    )
    AND classid = (hashint8('pgjobs_worker'::regclass::oid::bigint) # 1885825644)::oid
    AND objsubid = 2
    AND NOT objid::bigint = ANY (ARRAY(SELECT id & 2147483647 FROM pgjobs_worker))
