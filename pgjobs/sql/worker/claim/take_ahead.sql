-- As pick.sql and take.sql; and beyond "limit", which the free slots begin at once, take
-- what they will begin within moments. Each job has the cost of its task, in seconds of
-- a slot. A job of another task, or one that must not wait in a worker, has none, and so
-- ends the claim unless a free slot is there for it. A job waits in a worker only once,
-- and not if two more crashes would fail it: rescue.sql does not count the first one.
picked AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
    FROM (
        SELECT id, crashes + 1 >= max_crashes AS is_suspect,
            CASE
                WHEN attempts = 0 AND max_crashes > 2 AND keys IS NULL
                    AND process_units IS NULL
                    THEN (%(costs)s::float8[])[array_position(%(tasks)s::text[], task)]
            END AS cost
        FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT id FROM eligible)) AND status || '' = 'READY'
        ORDER BY priority DESC, turn
        LIMIT least(%(limit)s::bigint + %(most_ahead)s, (
            \ir before_suspect.sql
        ))
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
),
taken AS MATERIALIZED (
    SELECT id, number > %(limit)s AS is_ahead
    FROM (
        SELECT *, row_number() OVER line AS number,
            sum(coalesce(cost, 'infinity')) OVER line AS total
        FROM picked WINDOW line AS (ORDER BY place)
    ) AS job
    WHERE (number <= %(limit)s OR total <= %(seconds)s)
        AND (
            place < (SELECT min(place) FROM picked WHERE is_suspect) IS NOT FALSE
            OR %(is_idle)s AND place = (SELECT min(place) FROM picked)
        )
),
-- "started_at" after "last_attempted_at" says that the job may not have begun. A claim
-- for a free slot writes them in the other order.
claimed AS (
    UPDATE pgjobs_job
    \ir set.sql
        last_attempted_at = CASE
            WHEN id = ANY (ARRAY(SELECT id FROM taken WHERE is_ahead))
                THEN statement_timestamp()
            ELSE clock_timestamp()
        END
    WHERE id = ANY (ARRAY(SELECT id FROM taken))
    RETURNING
        \ir columns.sql
),
