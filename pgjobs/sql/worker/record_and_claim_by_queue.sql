-- Record the jobs that succeeded, and claim the first ones of each queue, in their order.
--
-- As record_and_claim.sql does, but it looks into each queue that the worker serves. So it
-- walks over no job of another queue, and costs a probe of the index for each queue.
\ir claim/begin.sql
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
-- Those to look into: the first jobs of all stand in the queues whose first jobs come
-- first. The room of a limited queue is counted once this statement has recorded, because
-- the summary asks for that first; should a plan ever do otherwise, the worker looks
-- again, as at a full queue.
queue AS MATERIALIZED (
    SELECT best.*, CASE
        WHEN max_running IS NULL THEN %(reach)s ELSE pgjobs_room(queue_name)
    END AS room
    FROM (
        SELECT *
        FROM (
            SELECT * FROM hop
            UNION ALL
            SELECT name, job.*
            FROM unnest(%(queues)s::text[]) AS name
            CROSS JOIN LATERAL (
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
-- What stands behind the last of a full list of queues is left to a longer one.
listed AS MATERIALIZED (
    SELECT job.*
    FROM host CROSS JOIN queue CROSS JOIN LATERAL (
        SELECT id, priority, turn, crashes + 1 >= max_crashes AS is_suspect,
            coalesce(expires_at <= clock_timestamp() AND attempts = 0, false)
                AS is_expired,
            coalesce(process_units, 1) AS units
        FROM pgjobs_job
        WHERE status = 'READY' AND queue_name = queue.queue_name
            AND coalesce(process_units, 1) <= free
            AND (priority, -turn) > (last_priority, -last_turn)
        ORDER BY priority DESC, turn LIMIT least(room, %(reach)s)
    ) AS job
    WHERE ((job.priority, -job.turn) < (
        SELECT priority, -turn FROM queue
        ORDER BY priority DESC, turn OFFSET %(reach)s - 1
    )) IS NOT TRUE
    ORDER BY job.priority DESC, job.turn LIMIT %(reach)s
),
list AS (
    SELECT %(reach)s IN ((SELECT count(*) FROM queue), (SELECT count(*) FROM listed))
            AS is_cut,
        EXISTS (
            SELECT FROM queue CROSS JOIN LATERAL (
                SELECT FROM pgjobs_job
                WHERE status = 'READY' AND queue_name = queue.queue_name
                OFFSET room LIMIT 1
            ) AS job
            WHERE room < %(reach)s
        ) AS is_full
),
\ir claim/end.sql
