-- Claim in claim order, behind `stored`, which says what was recorded before.
--
-- A job is held if the transaction that claimed or locked it last, its "xmax", had not
-- ended when the statement began. "xmax" has only 32 bits, so the age gives the full
-- number. One that came since the walk began has a negative age, and is only tried in vain.
-- (Where several transactions share a lock, "xmax" numbers their group instead. It looks
-- old, or far in the future, and such a job is not taken for held.)
--
-- MATERIALIZED is read only as far as it is needed. Each node of the plan costs time at its
-- start, so there are few. LIKE is what the index of this order says, so that no other
-- statement walks along it. Queues are compared with an array, because in most projects
-- none is paused or limited. A job that must begin at once does not wait in a worker:
-- rescue.sql does not count the first crash of those that do.
walk AS MATERIALIZED (
    SELECT job.*, queue_name = ANY (special) AS is_special,
        coalesce(queue_name = ANY (%(queues)s::text[]), true)
            AND NOT queue_name = ANY (%(excluded)s::text[])
            AND NOT (queue_name = ANY (special) AND %(skips_special)s)
            AND NOT (is_isolated AND %(isolated)s::int = 0) AS is_served
    FROM (
        SELECT snapshot, age(pg_snapshot_xmin(snapshot)::xid) AS oldest,
            pg_snapshot_xmax(snapshot)::text::bigint
                + age(pg_snapshot_xmax(snapshot)::xid) AS number_of_age_0,
            ARRAY(
                -- Not by OR: each of the two has an index of its own.
                SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
                UNION ALL
                SELECT name FROM pgjobs_queue WHERE max_running IS NOT NULL
            ) AS special
        FROM pg_current_snapshot() AS snapshot OFFSET 0
    ) AS present
    CROSS JOIN unnest(
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
            xmax <> '0'::xid AND age(xmax) BETWEEN 0 AND oldest
                AND NOT pg_visible_in_snapshot(
                    (number_of_age_0 - age(xmax))::text::xid8, snapshot
                ) AS is_held
        FROM pgjobs_job
        WHERE status LIKE 'READY%%'
            AND priority BETWEEN lowest AND highest AND turn >= first_turn
        ORDER BY priority DESC, turn
    ) AS job
    LIMIT %(scan_limit)s
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
    WHERE id = ANY (CASE WHEN %(claims)s THEN ids[:taken] END)
    RETURNING
        \ir columns.sql
)
-- The summary is a row of its own. Python sorts the jobs.
SELECT summary.*, claimed.* FROM claimed FULL JOIN (
    SELECT lease_tokens, has_keys,
        \ir next_due.sql
        met_last_chance,
        -- READY jobs that another transaction holds: it may yet release them.
        number < eligible AS met_locked,
        met_expired,
        met_special OR number < %(limit)s AND listed = %(scan_limit)s
            -- An isolated job has ended the claim: its row may say so by mistake.
            OR taken < least(number, %(slots)s) AND NOT met_last_chance AS is_cut,
        -- What others hold would not have been enough either.
        met_special OR number < %(limit)s AND eligible < %(limit)s AS is_starved,
        date_part('epoch', ended_at - begun_at) AS seconds,
        CASE WHEN NOT %(claims)s THEN ids[:taken] END AS ids
    FROM stored CROSS JOIN picked CROSS JOIN LATERAL (
        SELECT count(*) AS listed,
            count(*) FILTER (WHERE is_served AND NOT is_expired) AS eligible,
            bool_or(is_expired AND NOT %(skips_expired)s) IS TRUE AS met_expired
        FROM walk WHERE number < %(limit)s
    ) AS walked
) AS summary ON false
