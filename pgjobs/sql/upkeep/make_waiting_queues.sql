-- Make the rows of queues that have jobs to run but no row, because no worker has claimed
-- from them yet. Each time some names behind a name, and some lines behind a line, are
-- looked at, by hopping along indexes. Return behind which to go on, NULL at the end.
WITH RECURSIVE ready (name, number) AS (
    (
        SELECT queue_name, 1 FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > %(after)s
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > ready.name
        ORDER BY queue_name LIMIT 1
    ), number + 1
    FROM ready WHERE name IS NOT NULL AND number < %(limit)s
),
arrived (name, number) AS (
    (
        SELECT queue_name, 1 FROM pgjobs_job
        WHERE line = 'arrived' AND queue_name > %(after)s
        ORDER BY line, queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE line = 'arrived' AND queue_name > arrived.name
        ORDER BY line, queue_name LIMIT 1
    ), number + 1
    FROM arrived WHERE name IS NOT NULL AND number < %(limit)s
),
-- Lines of the queues that no worker serves, whose jobs an admission has seen.
unserved (line, number) AS (
    (
        SELECT line, 1 FROM pgjobs_job
        WHERE line > %(after_line)s AND line > 'unserved ' AND line < 'unserved!'
        ORDER BY line LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT line FROM pgjobs_job
        WHERE line > unserved.line AND line < 'unserved!'
        ORDER BY line LIMIT 1
    ), number + 1
    FROM unserved WHERE line IS NOT NULL AND number < %(limit)s
),
found AS MATERIALIZED (
    SELECT name, number FROM ready WHERE name IS NOT NULL
    UNION ALL
    SELECT name, number FROM arrived WHERE name IS NOT NULL
),
made AS (
    INSERT INTO pgjobs_queue (name)
    SELECT name FROM (
        SELECT name FROM found
        UNION
        SELECT (SELECT queue_name FROM pgjobs_job WHERE line = unserved.line LIMIT 1)
        FROM unserved WHERE line IS NOT NULL
    ) AS waiting
    WHERE NOT EXISTS (SELECT FROM pgjobs_queue WHERE pgjobs_queue.name = waiting.name)
    ON CONFLICT (name) DO NOTHING
)
SELECT (SELECT min(name) FROM found WHERE number = %(limit)s),
    (SELECT line FROM unserved WHERE number = %(limit)s)
