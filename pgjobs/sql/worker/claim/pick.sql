-- Lock one job after the other until there are enough. Jobs that others hold come last, so
-- that workers do not want the same ones: most have been claimed. Of these no more are
-- tried than are wanted. If another transaction has
-- changed a row since the snapshot, PostgreSQL tests the conditions again, on the row's
-- newest version (EvalPlanQual). The claim takes the jobs before a last chance, which
-- runs alone, or before one that must begin at once and finds no slot, or
-- before one that finds no process. A plain
-- "status = 'READY'" would tempt the planner to an index of READY jobs: one that looks
-- small when the generic plan is made, and would be walked as a whole.
picked AS MATERIALIZED (
    SELECT count(*) AS number, array_agg(id) AS ids,
        CASE
            WHEN %(is_idle)s
                AND (array_agg(is_last_chance AND NOT is_special))[1] THEN 1
            ELSE coalesce(
                least(
                    array_position(array_agg(is_last_chance OR is_special), true),
                    array_position(array_agg(must_begin), true, %(slots)s::int + 1),
                    (array_positions(array_agg(is_isolated), true))[%(isolated)s::int + 1]
                ) - 1,
                count(*)::int
            )
        END AS taken,
        bool_or(is_last_chance) IS TRUE AS met_last_chance,
        bool_or(is_special) IS TRUE AS met_special,
        clock_timestamp() AS ended_at
    FROM (
        SELECT id, is_last_chance, is_special, must_begin, is_isolated
        FROM (
            SELECT * FROM walk WHERE NOT is_held
            UNION ALL
            (SELECT * FROM walk WHERE is_held LIMIT %(limit)s::bigint)
        ) AS listed CROSS JOIN LATERAL (
            SELECT FROM pgjobs_job
            WHERE ctid = listed.place AND status || '' = 'READY'
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS job
        WHERE is_served AND NOT is_expired
        LIMIT (SELECT %(limit)s::bigint FROM stored)
    ) AS job
),
