-- Let new jobs of these queues notify from now on, and promise no more to poll without
-- that. Each INSERT holds such a lock for a moment when it asks for it.
SELECT pg_advisory_lock_shared(1885825646, hashtext(name)),
    CASE
        WHEN %(was_polling)s::boolean
            THEN pg_advisory_unlock_shared(1885825644, 0)
    END
FROM unnest(%(queues)s::text[]) AS name
