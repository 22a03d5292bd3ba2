-- Claim the first jobs of all queues that the worker serves, by a look into each of
-- them.
--
-- Unlike record_and_claim.sql this walks over no job of other queues, and costs a probe
-- of the index for each queue. It also counts the room of limited queues and the
-- process units of the host. Another statement of the same round trip has recorded
-- successes.
WITH RECURSIVE host AS (
    SELECT * FROM pgjobs_host_room(%(host)s, %(total)s::bigint, %(patience)s)
    WHERE %(total)s IS NOT NULL
    UNION ALL
    -- A worker without a total ignores units.
    SELECT 1000000000000000000, -1000, 0 WHERE %(total)s IS NULL
),
-- The queues that have READY jobs, by hopping along the index from name to name.
hop AS (
    (
        SELECT queue_name, priority, turn FROM pgjobs_job
        WHERE status = 'READY' AND %(queues)s::text[] IS NULL
        ORDER BY queue_name, priority DESC, turn LIMIT 1
    )
    UNION ALL
    SELECT job.*
    FROM hop CROSS JOIN LATERAL (
        SELECT queue_name, priority, turn FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > hop.queue_name
        ORDER BY queue_name, priority DESC, turn LIMIT 1
    ) AS job
),
-- The first jobs of all stand in the queues whose own first jobs come first.
queue AS MATERIALIZED (
    SELECT best.*,
        CASE WHEN max_running IS NULL THEN %(reach)s ELSE pgjobs_room(queue_name) END
            AS room
    FROM (
        SELECT * FROM (
            SELECT * FROM hop
            UNION ALL
            SELECT name, job.*
            FROM unnest(%(queues)s::text[]) AS name CROSS JOIN LATERAL (
                SELECT priority, turn FROM pgjobs_job
                WHERE status = 'READY' AND queue_name = name
                ORDER BY priority DESC, turn LIMIT 1
            ) AS job
        ) AS first
        WHERE NOT queue_name = ANY (%(excluded)s::text[])
            AND queue_name NOT IN (
                SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
            )
        ORDER BY priority DESC, turn LIMIT %(reach)s
    ) AS best
    LEFT JOIN pgjobs_queue ON name = queue_name
),
-- Jobs behind the last entry of a full list of queues are left to a longer list.
listed AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
    FROM (
        SELECT job.*
        FROM host CROSS JOIN queue CROSS JOIN LATERAL (
            SELECT id, priority, turn, crashes + 1 >= max_crashes AS is_suspect,
                coalesce(expires_at <= clock_timestamp() AND attempts = 0, false)
                    AS is_expired,
                coalesce(process_units, 1) AS units
            FROM pgjobs_job
            -- The first and the last condition spare it a walk that finds nothing.
            WHERE free > 0 AND status = 'READY' AND queue_name = queue.queue_name
                AND coalesce(process_units, 1) <= free
                AND (priority, -turn) > (last_priority, -last_turn)
                AND priority >= last_priority
                AND (
                    NOT %(skips_expired)s OR attempts > 0
                    OR expires_at > clock_timestamp() IS NOT FALSE
                )
            ORDER BY priority DESC, turn LIMIT least(room, %(reach)s)
        ) AS job
        WHERE ((job.priority, -job.turn) < (
            SELECT priority, -turn FROM queue
            ORDER BY priority DESC, turn OFFSET %(reach)s - 1
        )) IS NOT TRUE
        ORDER BY job.priority DESC, job.turn LIMIT %(reach)s
    ) AS job
),
eligible AS MATERIALIZED (
    SELECT id, is_suspect, place
    FROM (
        SELECT *, sum(units) OVER (ORDER BY place) AS total FROM listed
        WHERE NOT is_expired
    ) AS job
    WHERE total <= (SELECT free FROM host)
),
\ir claim/take.sql
summary AS (
    SELECT NULL::bigint[] AS recorded, false AS has_keys,
        \ir claim/look.sql
),
verdict AS (
    SELECT *,
        number < %(limit)s AND %(reach)s IN (
            (SELECT count(*) FROM queue), (SELECT count(*) FROM listed)
        ) AS is_cut,
        -- READY jobs that another transaction holds, or for which there is no room.
        number < %(limit)s AND EXISTS (
            SELECT FROM queue CROSS JOIN LATERAL (
                SELECT FROM pgjobs_job
                WHERE status = 'READY' AND queue_name = queue.queue_name
                    AND NOT id = ANY (ARRAY(SELECT id FROM picked))
                    AND coalesce(process_units <= %(total)s, true)
                LIMIT 1
            ) AS job
        ) AS met_locked
    FROM summary
)
\ir claim/result.sql
