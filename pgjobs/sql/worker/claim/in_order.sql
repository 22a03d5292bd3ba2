-- Claim in claim order, behind `stored`, which says what was recorded before.
--
-- A job is held if the transaction that claimed or locked it last, its "xmax", had not
-- ended when the statement began. "xmax" has only 32 bits, so the age gives the full
-- number. One that came since the walk began has a negative age, and is only tried in vain.
-- (Where several transactions share a lock, "xmax" numbers their group instead. It looks
-- old, or far in the future, and such a job is not taken for held.)
--
-- MATERIALIZED is read only as far as it is needed. LIKE is what the index of this
-- order says, so that no other statement walks along it. Queues are compared with
-- arrays, because in most projects none is paused or limited. A job that must begin at
-- once does not wait in a worker: rescue.sql does not count the first crash of those
-- that do.
present AS MATERIALIZED (
    SELECT snapshot, age(pg_snapshot_xmin(snapshot)::xid) AS oldest,
        pg_snapshot_xmax(snapshot)::text::bigint
            + age(pg_snapshot_xmax(snapshot)::xid) AS number_of_age_0
    FROM pg_current_snapshot() AS snapshot
),
walk AS MATERIALIZED (
    SELECT *,
        coalesce(queue_name = ANY (%(queues)s::text[]), true)
            AND NOT queue_name = ANY (%(excluded)s::text[])
            AND NOT (is_special AND %(skips_special)s)
            AND NOT (is_isolated AND %(isolated)s::int = 0) AS is_served
    FROM (
        SELECT job.*, queue_name = ANY (ARRAY(
            -- Not by OR: each of the two has an index of its own.
            SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
            UNION ALL
            SELECT name FROM pgjobs_queue WHERE max_running IS NOT NULL
        )) AS is_special
        FROM unnest(
            %(highest)s::int[], %(lowest)s::int[], %(first_turns)s::bigint[]
        ) AS range (highest, lowest, first_turn)
        CROSS JOIN LATERAL (
            SELECT ctid AS place, id, queue_name,
                crashes + 1 >= max_crashes AND (keys ? 'isolated') IS NOT TRUE
                    OR chunk IS NOT NULL AND chunk ? 'alone'
                    AND chunk ->> 'alone' = life || ':' || attempts AS is_last_chance,
                attempts > 0 OR max_crashes < 3 OR keys IS NOT NULL
                    OR process_units IS NOT NULL AS must_begin,
                (keys ? 'isolated') IS TRUE AS is_isolated,
                (expires_at <= clock_timestamp() AND attempts = 0) IS TRUE AS is_expired,
                -- Most jobs were never locked, and then nothing is compared.
                CASE
                    WHEN xmax = '0'::xid THEN false
                    WHEN age(xmax) BETWEEN 0 AND (SELECT oldest FROM present)
                        THEN NOT pg_visible_in_snapshot(
                            (
                                (SELECT number_of_age_0 FROM present) - age(xmax)
                            )::text::xid8,
                            (SELECT snapshot FROM present)
                        )
                    ELSE false
                END AS is_held
            FROM pgjobs_job
            WHERE status LIKE 'READY%%'
                AND priority BETWEEN lowest AND highest AND turn >= first_turn
            ORDER BY priority DESC, turn
        ) AS job
        LIMIT %(scan_limit)s
    ) AS ready
),
\ir pick.sql
-- "started_at" after "last_attempted_at" says that the job may not have begun. A claim
-- for a free slot writes them in the other order.
claimed AS (
    UPDATE pgjobs_job
    \ir set.sql
        last_attempted_at = CASE
            WHEN array_position(ids, id) > %(slots)s THEN statement_timestamp()
            ELSE clock_timestamp()
        END
    FROM picked
    WHERE id = ANY (ids[:taken]) AND %(claims)s
    RETURNING
        \ir columns.sql
),
summary AS (
    SELECT lease_tokens, has_keys,
        \ir next_due.sql
        met_last_chance,
        -- READY jobs that another transaction holds: it may yet release them.
        number < eligible AS met_locked,
        met_expired,
        met_special OR number < %(limit)s AND listed = %(scan_limit)s AS is_cut,
        -- What others hold would not have been enough either.
        met_special OR number < %(limit)s AND eligible < %(limit)s AS is_starved,
        extract(epoch FROM ended_at - begun_at)::float8 AS seconds,
        CASE WHEN NOT %(claims)s THEN ids[:taken] END AS ids
    FROM stored CROSS JOIN picked CROSS JOIN LATERAL (
        SELECT count(*) AS listed,
            count(*) FILTER (WHERE is_served AND NOT is_expired) AS eligible,
            bool_or(is_expired AND NOT %(skips_expired)s) IS TRUE AS met_expired
        FROM walk WHERE number < %(limit)s
    ) AS walked
)
-- The summary is a row of its own. Python sorts the jobs.
SELECT * FROM summary FULL JOIN claimed ON false
