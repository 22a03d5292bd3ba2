-- Settle keys that jobs wait for, by hopping along the index from key to key: a batch
-- beyond those given. A lock whose place is taken needs nothing, unless who has it will
-- not run: he stands aside. Places of jobs that are gone, which only switched-off
-- triggers can leave, are freed for the next sweep. And those that somebody could not
-- settle as he committed.
WITH RECURSIVE locked (key, number) AS (
    (
        SELECT lock, 1 FROM pgjobs_hold
        WHERE state = 'lock' AND lock > %(lock)s
        ORDER BY lock LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT lock FROM pgjobs_hold WHERE state = 'lock' AND lock > locked.key
        ORDER BY lock LIMIT 1
    ), number + 1
    FROM locked WHERE key IS NOT NULL AND number < %(limit)s
),
limited (key, number) AS (
    (
        SELECT limit_key, 1 FROM pgjobs_hold
        WHERE state = 'limit' AND limit_key > %(limit_key)s
        ORDER BY limit_key LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT limit_key FROM pgjobs_hold
        WHERE state = 'limit' AND limit_key > limited.key
        ORDER BY limit_key LIMIT 1
    ), number + 1
    FROM limited WHERE key IS NOT NULL AND number < %(limit)s
),
freed AS (
    DELETE FROM pgjobs_hold AS hold
    WHERE state IN ('place', 'arriving')
        AND (
            lock = ANY (ARRAY(SELECT key FROM locked))
            OR limit_key = ANY (ARRAY(SELECT key FROM limited))
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_job WHERE id = hold.job_id AND finished_at IS NULL
        )
),
-- Queues some of whose jobs stand aside.
queue (name) AS (
    (
        SELECT queue_name FROM pgjobs_hold WHERE state = 'aside'
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_hold
        WHERE state = 'aside' AND queue_name > queue.name
        ORDER BY queue_name LIMIT 1
    )
    FROM queue WHERE name IS NOT NULL
)
SELECT 'lock', key,
    CASE
        WHEN NOT EXISTS (
            SELECT FROM pgjobs_hold WHERE lock = locked.key AND state = 'place'
        )
        THEN pgjobs_settle('lock', key)
        WHEN pgjobs_is_obstructed('lock', key) THEN pgjobs_step_aside('lock', key)
        ELSE 0
    END
FROM locked WHERE key IS NOT NULL
UNION ALL
SELECT 'limit', key,
    CASE
        WHEN pgjobs_is_obstructed('limit', key) THEN pgjobs_step_aside('limit', key)
        ELSE pgjobs_settle('limit', key)
    END
FROM limited WHERE key IS NOT NULL
UNION ALL
SELECT kind, key, pgjobs_settle(kind, key)
FROM (
    SELECT DISTINCT kind, key FROM pgjobs_unsettled
    WHERE kind <> 'dependency'
    LIMIT %(limit)s
) AS unsettled
UNION ALL
SELECT 'aside', name, pgjobs_come_back(name) FROM queue WHERE name IS NOT NULL
UNION ALL
-- About these a worker has to decide, see undecided.sql: one tells that there are some.
(SELECT kind, key, NULL FROM pgjobs_unsettled WHERE kind = 'dependency' LIMIT 1)
