-- Let new jobs of these queues no longer notify: the worker polls.
SELECT pg_advisory_lock_shared(1885825644, 0),
    pg_advisory_unlock_shared(1885825646, hashtext(name))
FROM unnest(%(queues)s::text[]) AS name
