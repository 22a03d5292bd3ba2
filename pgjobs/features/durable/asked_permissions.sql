-- The permissions that open questions ask for. It hops over the index of what is asked,
-- because many jobs ask for few permissions.
WITH RECURSIVE asked (permission) AS (
    (
        SELECT permission FROM pgjobs_wait
        WHERE permission IS NOT NULL AND ended_at IS NULL
        ORDER BY permission
        LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT wait.permission FROM pgjobs_wait AS wait
        WHERE wait.permission > asked.permission AND ended_at IS NULL
        ORDER BY wait.permission
        LIMIT 1
    )
    FROM asked WHERE asked.permission IS NOT NULL
)
SELECT permission FROM asked WHERE permission IS NOT NULL LIMIT 1000
