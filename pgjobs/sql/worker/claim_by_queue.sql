-- Claim the first jobs of all queues that the worker serves, by a probe into each of
-- them.
--
-- Unlike record_and_claim.sql this walks over no job of other queues, and costs a probe
-- of the index for each queue, and for each number of process units that its jobs take.
-- It also counts the room of limited queues and the units of the host, and walks over no
-- job that takes more than there are. Another statement of the same round trip has
-- recorded successes.
WITH RECURSIVE
-- What is free on the host. A worker without a total ignores units.
host AS (
    SELECT * FROM pgjobs_host_room(%(host)s, %(total)s::bigint, %(patience)s)
    WHERE %(total)s IS NOT NULL
    UNION ALL
    SELECT %(beyond)s, %(behind)s, 0 WHERE %(total)s IS NULL
),
-- A class has the jobs of a queue that take the same number of units: 0, if they do not
-- say. The first jobs of the classes that have READY jobs, by hopping along the index
-- from class to class. Of those for which there is no room, only the smallest of a queue.
hop AS (
    SELECT name AS queue_name, -1::bigint AS units, 0 AS priority, 0::bigint AS turn
    FROM unnest(coalesce(%(queues)s::text[], '{""}')) AS name
    UNION ALL
    SELECT job.*
    FROM hop CROSS JOIN host CROSS JOIN LATERAL (
        SELECT queue_name, coalesce(process_units, 0) AS units, priority, turn
        FROM pgjobs_job
        WHERE status = 'READY' AND (queue_name, coalesce(process_units, 0)) > (
            hop.queue_name,
            CASE WHEN hop.units > free THEN %(beyond)s ELSE hop.units END
        )
        ORDER BY queue_name, coalesce(process_units, 0), priority DESC, turn LIMIT 1
    ) AS job
    WHERE %(queues)s::text[] IS NULL OR job.queue_name = hop.queue_name
),
served AS MATERIALIZED (
    SELECT * FROM hop
    WHERE units >= 0
        AND NOT queue_name = ANY (%(excluded)s::text[])
        AND queue_name NOT IN (
            SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
        )
),
-- The first jobs of all stand in the classes whose own first jobs come first.
class AS MATERIALIZED (
    SELECT served.* FROM served CROSS JOIN host WHERE units > free IS NOT TRUE
    ORDER BY priority DESC, turn LIMIT %(scan_limit)s
),
queue AS MATERIALIZED (
    SELECT queue_name, row_number() OVER ()::integer AS number,
        CASE WHEN max_running IS NULL THEN %(scan_limit)s
            ELSE pgjobs_room(queue_name) END
            AS room,
        -- So many jobs of a class, some of them extra, fill one of the lists below.
        %(scan_limit)s + CASE WHEN max_running IS NULL THEN 0 ELSE %(scan_limit)s END
            AS longest
    FROM (SELECT DISTINCT queue_name FROM class) AS served
    LEFT JOIN pgjobs_queue ON name = queue_name
),
-- Extra jobs are those behind as many as their queue has room for: others may be
-- locked. They have a list of their own, so that they displace no other job. Jobs
-- behind the last entry of a full list of classes are left to a longer list.
listed AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY is_extra ORDER BY priority DESC, turn
        ) AS place_in_list
        FROM (
            SELECT job.*, number, greatest(class.units, 1) AS units,
                row_number() OVER (
                    PARTITION BY number ORDER BY job.priority DESC, job.turn
                ) > room AS is_extra
            FROM host CROSS JOIN class JOIN queue USING (queue_name)
            CROSS JOIN LATERAL (
                SELECT id, priority, turn,
                    crashes + 1 >= max_crashes AND (keys ? 'isolated') IS NOT TRUE
                        OR chunk IS NOT NULL AND chunk ? 'alone'
                        AND chunk ->> 'alone' = life || ':' || attempts
                        AS is_last_chance,
                    (keys ? 'isolated') IS TRUE AS is_isolated,
                    (expires_at <= clock_timestamp() AND attempts = 0) IS TRUE
                        AS is_expired
                FROM pgjobs_job
                WHERE free > 0 AND room > 0 AND status = 'READY'
                    AND queue_name = class.queue_name
                    AND coalesce(process_units, 0) = class.units
                    AND (priority, -turn) > (last_priority, -last_turn)
                    AND priority >= last_priority
                    AND (%(isolated)s::int = 0 AND keys ? 'isolated') IS NOT TRUE
                    AND (
                        NOT %(skips_expired)s OR attempts > 0
                        OR expires_at > clock_timestamp() IS NOT FALSE
                    )
                ORDER BY priority DESC, turn LIMIT longest
            ) AS job
            WHERE ((job.priority, -job.turn) < (
                SELECT priority, -turn FROM class
                ORDER BY priority DESC, turn OFFSET %(scan_limit)s - 1
            )) IS NOT TRUE
        ) AS job
    ) AS job
    WHERE place_in_list <= %(scan_limit)s
),
eligible AS MATERIALIZED (
    SELECT * FROM listed WHERE NOT is_expired
),
picked AS MATERIALIZED (
    SELECT * FROM eligible
    WHERE id = ANY ((
        SELECT pgjobs_pick(
            array_agg(id), array_agg(number), array_agg(units),
            array_agg(is_last_chance),
            ARRAY(SELECT room FROM queue ORDER BY number),
            (SELECT free FROM host WHERE %(total)s IS NOT NULL), %(limit)s
        )
        FROM (SELECT * FROM eligible ORDER BY place) AS in_order
    )::bigint[])
),
-- One that must run alone is the only one that was picked.
taken AS MATERIALIZED (
    SELECT id FROM (
        SELECT *, count(*) FILTER (WHERE is_isolated) OVER (ORDER BY place) AS isolated
        FROM picked
    ) AS picked
    WHERE (%(is_idle)s OR NOT is_last_chance)
        AND (isolated <= %(isolated)s::int OR NOT is_isolated)
),
claimed AS (
    UPDATE pgjobs_job
    \ir claim/set.sql
        last_attempted_at = clock_timestamp()
    WHERE %(claims)s AND id = ANY (ARRAY(SELECT id FROM taken))
    RETURNING
        \ir claim/columns.sql
),
summary AS (
    SELECT NULL::bigint[] AS lease_tokens, false AS has_keys,
        \ir claim/next_due.sql
        met_last_chance,
        -- READY jobs that another transaction holds, or for which there is no room.
        number < %(limit)s AND (
            EXISTS (
                SELECT FROM class CROSS JOIN LATERAL (
                    SELECT FROM pgjobs_job
                    WHERE status = 'READY' AND queue_name = class.queue_name
                        AND coalesce(process_units, 0) = class.units
                        AND (%(isolated)s::int = 0 AND keys ? 'isolated') IS NOT TRUE
                        AND NOT id = ANY (ARRAY(SELECT id FROM picked))
                    LIMIT 1
                ) AS job
            )
            OR EXISTS (
                SELECT FROM host CROSS JOIN served
                WHERE units > free AND units <= %(total)s
            )
        ) AS met_locked,
        -- Expired jobs are rare. Another statement cancels them.
        EXISTS (SELECT FROM listed WHERE is_expired) AS met_expired,
        number < %(limit)s AND (
            -- As in claim/in_order.sql.
            number < (SELECT count(*) FROM picked) AND NOT met_last_chance
            OR %(scan_limit)s IN (
                (SELECT count(*) FROM class),
                (SELECT count(*) FROM listed WHERE NOT is_extra)
            )
            -- All extra jobs may be of one queue, and another one has room still.
            OR (SELECT count(*) FROM listed WHERE is_extra) = %(scan_limit)s
                AND EXISTS (
                SELECT FROM eligible JOIN queue USING (number)
                WHERE NOT id = ANY (ARRAY(SELECT id FROM picked))
                    AND room > (
                        SELECT count(*) FROM picked WHERE picked.number = queue.number
                    )
            )
            -- Some jobs before one that must run alone were locked by this claim: what
            -- the latter meets is for the next fetch to find out.
            OR number > 0 AND NOT met_last_chance
                AND EXISTS (SELECT FROM eligible WHERE is_last_chance)
        ) AS is_cut,
        false AS is_starved,
        0::float8 AS seconds,
        CASE WHEN NOT %(claims)s THEN ARRAY(SELECT id FROM taken) END AS ids
    FROM (
        SELECT (SELECT count(*) FROM taken) AS number,
            (SELECT bool_or(is_last_chance) IS TRUE FROM picked) AS met_last_chance
    ) AS facts
)
SELECT * FROM summary FULL JOIN claimed ON false
