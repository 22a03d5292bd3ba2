-- Claim the first jobs of all queues that the worker serves, by a look into each of
-- them.
--
-- Unlike record_and_claim.sql this walks over no job of other queues, and costs a probe
-- of the index for each queue. It also counts the room of limited queues and the
-- process units of the host: it walks over no job that takes more than there are, and
-- costs a probe more for each number of units that the jobs of a queue take. Another
-- statement of the same round trip has recorded successes.
WITH RECURSIVE
\ir claim/host.sql
-- The queues that have READY jobs, by hopping along the index from name to name. Jobs
-- that take units stand apart from the others of a queue.
hop AS (
    (
        SELECT queue_name, process_units IS NOT NULL AS takes_units, priority, turn
        FROM pgjobs_job
        WHERE status = 'READY' AND %(queues)s::text[] IS NULL
        ORDER BY queue_name, takes_units, priority DESC, turn LIMIT 1
    )
    UNION ALL
    SELECT job.*
    FROM hop CROSS JOIN LATERAL (
        SELECT queue_name, process_units IS NOT NULL AS takes_units, priority, turn
        FROM pgjobs_job
        WHERE status = 'READY' AND (queue_name, process_units IS NOT NULL)
            > (hop.queue_name, hop.takes_units)
        ORDER BY queue_name, takes_units, priority DESC, turn LIMIT 1
    ) AS job
),
-- For a worker that counts units: the numbers of units that READY jobs take, by hopping
-- in the same way. Of those for which there is no room, only the smallest of a queue.
weight AS (
    SELECT name AS queue_name, 0::bigint AS units
    FROM unnest(coalesce(%(queues)s::text[], '{""}')) AS name
    WHERE %(total)s IS NOT NULL
    UNION ALL
    SELECT job.*
    FROM weight CROSS JOIN host CROSS JOIN LATERAL (
        SELECT queue_name, process_units FROM pgjobs_job
        WHERE status = 'READY' AND process_units IS NOT NULL
            AND (queue_name, process_units) > (
                weight.queue_name,
                CASE WHEN units > free THEN 9223372036854775807 ELSE units END
            )
        ORDER BY queue_name, process_units LIMIT 1
    ) AS job
    WHERE %(queues)s::text[] IS NULL OR job.queue_name = weight.queue_name
),
-- A class has the jobs of a queue that take no units, or "units" of them. A worker
-- that counts none has one class of all that take some. The first jobs of all stand in
-- the classes whose own first jobs come first.
class AS MATERIALIZED (
    SELECT *
    FROM (
        SELECT queue_name, takes_units, NULL::bigint AS units, priority, turn
        FROM (
            SELECT * FROM hop
            UNION ALL
            SELECT name, takes_units, job.*
            FROM unnest(%(queues)s::text[]) AS name
            CROSS JOIN unnest('{f,t}'::boolean[]) AS takes_units
            CROSS JOIN LATERAL (
                SELECT priority, turn FROM pgjobs_job
                WHERE status = 'READY' AND queue_name = name
                    AND (process_units IS NOT NULL) = takes_units
                ORDER BY priority DESC, turn LIMIT 1
            ) AS job
        ) AS every
        WHERE NOT takes_units OR %(total)s IS NULL
        UNION ALL
        SELECT queue_name, true, units, job.*
        FROM host CROSS JOIN weight CROSS JOIN LATERAL (
            SELECT priority, turn FROM pgjobs_job
            WHERE status = 'READY' AND queue_name = weight.queue_name
                AND process_units = units
            ORDER BY priority DESC, turn LIMIT 1
        ) AS job
        WHERE units > free IS NOT TRUE
    ) AS first
    WHERE NOT queue_name = ANY (%(excluded)s::text[])
        AND queue_name NOT IN (
            SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
        )
    ORDER BY priority DESC, turn LIMIT %(reach)s
),
queue AS MATERIALIZED (
    SELECT queue_name, row_number() OVER ()::integer AS number,
        CASE WHEN max_running IS NULL THEN %(reach)s ELSE pgjobs_room(queue_name) END
            AS room,
        -- So many jobs of a class fill one of the lists below.
        CASE WHEN max_running IS NULL THEN %(reach)s ELSE 2 * %(reach)s END AS longest
    FROM (SELECT DISTINCT queue_name FROM class) AS served
    LEFT JOIN pgjobs_queue ON name = queue_name
),
-- Spare jobs are those behind as many as their queue has room for: others may be locked.
-- They have a list of their own, so that they displace no other job.
-- Jobs behind the last entry of a full list of classes are left to a longer list.
listed AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY is_spare ORDER BY priority DESC, turn
        ) AS place_in_list
        FROM (
            SELECT job.*, number, row_number() OVER (
                PARTITION BY number ORDER BY job.priority DESC, job.turn
            ) > room AS is_spare
            FROM host CROSS JOIN class JOIN queue USING (queue_name)
            CROSS JOIN LATERAL (
                (
                    SELECT id, priority, turn, crashes + 1 >= max_crashes AS is_suspect,
                        coalesce(expires_at <= clock_timestamp() AND attempts = 0, false)
                            AS is_expired,
                        coalesce(process_units, 1) AS units
                    FROM pgjobs_job
                    WHERE class.units IS NULL
                        AND (process_units IS NOT NULL) = class.takes_units AND
                        \ir claim/of_class.sql
                    ORDER BY priority DESC, turn LIMIT longest
                )
                UNION ALL
                (
                    SELECT id, priority, turn, crashes + 1 >= max_crashes,
                        coalesce(expires_at <= clock_timestamp() AND attempts = 0, false),
                        process_units
                    FROM pgjobs_job
                    WHERE process_units = class.units AND
                        \ir claim/of_class.sql
                    ORDER BY priority DESC, turn LIMIT longest
                )
            ) AS job
            WHERE ((job.priority, -job.turn) < (
                SELECT priority, -turn FROM class
                ORDER BY priority DESC, turn OFFSET %(reach)s - 1
            )) IS NOT TRUE
        ) AS job
    ) AS job
    WHERE place_in_list <= %(reach)s
),
eligible AS MATERIALIZED (
    SELECT * FROM listed WHERE NOT is_expired
),
picked AS MATERIALIZED (
    SELECT * FROM eligible
    WHERE id = ANY ((
        SELECT pgjobs_pick(
            array_agg(id), array_agg(number), array_agg(units), array_agg(is_suspect),
            ARRAY(SELECT room FROM queue ORDER BY number),
            (SELECT free FROM host WHERE %(total)s IS NOT NULL), %(limit)s
        )
        FROM (SELECT * FROM eligible ORDER BY place) AS in_line
    )::bigint[])
),
\ir claim/take.sql
summary AS (
    SELECT NULL::bigint[] AS recorded, false AS has_keys,
        \ir claim/look.sql
),
verdict AS (
    SELECT *,
        number < %(limit)s AND (
            %(reach)s IN (
                (SELECT count(*) FROM class),
                (SELECT count(*) FROM listed WHERE NOT is_spare)
            )
            -- All spare jobs may be of one queue, and another one has room still.
            OR (SELECT count(*) FROM listed WHERE is_spare) = %(reach)s AND EXISTS (
                SELECT FROM eligible JOIN queue USING (number)
                WHERE NOT id = ANY (ARRAY(SELECT id FROM picked))
                    AND room > (
                        SELECT count(*) FROM picked WHERE picked.number = queue.number
                    )
            )
        ) AS is_cut,
        false AS is_crowded,
        -- READY jobs that another transaction holds, or for which there is no room.
        number < %(limit)s AND (
            EXISTS (
                SELECT FROM class CROSS JOIN LATERAL (
                    (
                        SELECT FROM pgjobs_job
                        WHERE class.units IS NULL
                            AND (process_units IS NOT NULL) = class.takes_units
                            AND status = 'READY' AND queue_name = class.queue_name
                            AND NOT id = ANY (ARRAY(SELECT id FROM picked))
                        LIMIT 1
                    )
                    UNION ALL
                    (
                        SELECT FROM pgjobs_job
                        WHERE process_units = class.units
                            AND status = 'READY' AND queue_name = class.queue_name
                            AND NOT id = ANY (ARRAY(SELECT id FROM picked))
                        LIMIT 1
                    )
                ) AS job
            )
            OR EXISTS (
                SELECT FROM host CROSS JOIN weight
                WHERE units > free AND units <= %(total)s
                    AND NOT queue_name = ANY (%(excluded)s::text[])
                    AND queue_name NOT IN (
                        SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
                    )
            )
        ) AS met_locked
    FROM summary
)
\ir claim/result.sql
