-- What is free on the host. A worker without a total ignores units.
host AS (
    SELECT * FROM pgjobs_host_room(%(host)s, %(total)s::bigint, %(patience)s)
    WHERE %(total)s IS NOT NULL
    UNION ALL
    SELECT 9223372036854775807, -1000, 0 WHERE %(total)s IS NULL
),
