-- The first of those that wait for a lock, limit or rate, and how many they are, of some
-- keys: found by hopping along the index from key to key.
WITH RECURSIVE locked (key) AS (
    (SELECT lock FROM pgjobs_hold WHERE state = 'lock' ORDER BY lock LIMIT 1)
    UNION ALL
    SELECT (
        SELECT lock FROM pgjobs_hold WHERE state = 'lock' AND lock > locked.key
        ORDER BY lock LIMIT 1
    )
    FROM locked WHERE key IS NOT NULL
),
limited (key) AS (
    (
        SELECT limit_key FROM pgjobs_hold WHERE state = 'limit'
        ORDER BY limit_key LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT limit_key FROM pgjobs_hold
        WHERE state = 'limit' AND limit_key > limited.key
        ORDER BY limit_key LIMIT 1
    )
    FROM limited WHERE key IS NOT NULL
),
rated (key) AS (
    (SELECT rate_key FROM pgjobs_hold WHERE state = 'rate' ORDER BY rate_key LIMIT 1)
    UNION ALL
    SELECT (
        SELECT rate_key FROM pgjobs_hold
        WHERE state = 'rate' AND rate_key > rated.key
        ORDER BY rate_key LIMIT 1
    )
    FROM rated WHERE key IS NOT NULL
)
(
    SELECT line.id, line.number
    FROM locked CROSS JOIN LATERAL (
        SELECT min(job_id), count(*) FROM (
            SELECT job_id FROM pgjobs_hold
            WHERE state = 'lock' AND lock = locked.key
            ORDER BY is_ordered, job_id LIMIT %(most)s
        ) AS waiting
    ) AS line (id, number)
    WHERE key IS NOT NULL LIMIT %(keys)s
)
UNION ALL
(
    SELECT line.id, line.number
    FROM limited CROSS JOIN LATERAL (
        SELECT min(job_id), count(*) FROM (
            SELECT job_id FROM pgjobs_hold
            WHERE state = 'limit' AND limit_key = limited.key
            ORDER BY priority DESC, job_id LIMIT %(most)s
        ) AS waiting
    ) AS line (id, number)
    WHERE key IS NOT NULL LIMIT %(keys)s
)
UNION ALL
(
    SELECT line.id, line.number
    FROM rated CROSS JOIN LATERAL (
        SELECT min(job_id), count(*) FROM (
            SELECT job_id FROM pgjobs_hold
            WHERE state = 'rate' AND rate_key = rated.key
            ORDER BY priority DESC, job_id LIMIT %(most)s
        ) AS waiting
    ) AS line (id, number)
    WHERE key IS NOT NULL LIMIT %(keys)s
)
