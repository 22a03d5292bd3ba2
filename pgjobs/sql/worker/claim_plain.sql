-- Claim the first plain jobs in line: those that take no process units of their own, and
-- whose queue has no limit.
--
-- The worker sends this only while claim_by_queue.sql fails. It walks over all READY
-- jobs that are not plain, so it may be slow. A plain job takes one unit of the host. No
-- unit is kept for jobs that have waited long for several: they cannot be claimed now.
WITH
\ir claim/host.sql
listed AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT id, priority, turn, crashes + 1 >= max_crashes AS is_suspect,
            false AS is_expired  -- the expiry finds those without this claim
        FROM pgjobs_job
        WHERE status LIKE 'READY%%' AND process_units IS NULL
            AND coalesce(queue_name = ANY (%(queues)s::text[]), true)
            AND NOT queue_name = ANY (%(excluded)s::text[])
            AND NOT queue_name = ANY (ARRAY(
                SELECT name FROM pgjobs_queue
                WHERE paused_at IS NOT NULL OR max_running IS NOT NULL
            ))
            AND (expires_at <= clock_timestamp() AND attempts = 0) IS NOT TRUE
        ORDER BY priority DESC, turn LIMIT %(reach)s
    ) AS job
),
eligible AS MATERIALIZED (
    SELECT id, is_suspect, place FROM listed WHERE place <= (SELECT free FROM host)
),
\ir claim/pick.sql
\ir claim/take.sql
summary AS (
    SELECT NULL::bigint[] AS recorded, false AS has_keys,
        \ir claim/look.sql
),
verdict AS (
    SELECT *, false AS is_cut, false AS is_crowded,
        -- READY jobs that another transaction holds, or for which there is no room.
        number < %(limit)s AND number < (SELECT count(*) FROM listed) AS met_locked
    FROM summary
)
\ir claim/result.sql
