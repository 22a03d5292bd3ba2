-- Return whether transactions wait for one another because they notify: all of them
-- take PostgreSQL's one lock for that, of "database 0", until their commit is stored.
SELECT count(*) > 1 FROM pg_locks
WHERE locktype = 'object' AND database = 0
    AND classid = 'pg_database'::regclass AND objid = 0
    AND NOT granted
