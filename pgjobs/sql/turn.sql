-- One turn of a worker in one round trip and one commit: record the jobs that
-- succeeded, claim others for the free slots, and say when the next one is due.
--
-- Recording is guarded by token and owner. A guard by status would invite the planner to
-- the small-looking index of running jobs, which is slow when it is stale. A token is
-- drawn once, so that none of them fits another of the ids; a join of the arrays would
-- compare each with each.
--
-- What follows "--units" is code for workers that mind the process units of their host,
-- and a comment for all others. What follows "--spans" is code for a look that passes
-- over the part of the index where nothing is known to be left; see `worker/marks.py`.
WITH RECURSIVE recorded AS (
    UPDATE pgjobs_job
    SET status = 'SUCCESSFUL',
        finished_at = clock_timestamp(),
        return_value = (%(return_values)s::text[])[
            array_position(%(lease_tokens)s::bigint[], lease_token)
        ]::jsonb,
        reason = '',
        -- Others may wait for its end: an admission follows.
        line = CASE WHEN keys IS NOT NULL THEN 'recorded' END,
        worker_id = NULL
    WHERE id = ANY (%(ids)s::bigint[])
        AND lease_token = ANY (%(lease_tokens)s::bigint[])
        AND worker_id = %(worker_id)s
    RETURNING lease_token, line
),
-- The queues that have READY jobs, by hopping along the index from name to name.
queue (name) AS (
    (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND %(limit)s > 0
        ORDER BY queue_name LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT queue_name FROM pgjobs_job
        WHERE status = 'READY' AND queue_name > queue.name
        ORDER BY queue_name LIMIT 1
    )
    FROM queue WHERE queue.name IS NOT NULL
),
-- Those that the worker serves and nobody has paused, and how many jobs each may give.
-- The room is counted once this statement has recorded, because the summary asks for that
-- first; should a plan ever do otherwise, the worker looks again, as at a full queue.
served AS MATERIALIZED (
    --spans WITH queue AS (
    --spans     SELECT * FROM unnest(
    --spans         %(names)s::text[], %(highest)s::int[], %(lowest)s::int[],
    --spans         %(first_turns)s::bigint[]
    --spans     ) AS span (name, highest, lowest, first_turn)
    --spans )
    SELECT queue.name,
        -- The room of a limited queue is for all of it: it gets one span.
        --spans highest,
        --spans CASE WHEN max_running IS NULL THEN lowest ELSE -100 END AS lowest,
        --spans CASE WHEN max_running IS NULL THEN first_turn ELSE 0 END AS first_turn,
        CASE
            WHEN known.max_running IS NULL THEN %(limit)s
            ELSE pgjobs_room(queue.name)
        END AS room
    FROM queue LEFT JOIN pgjobs_queue AS known ON known.name = queue.name
    WHERE (%(queues)s::text[] IS NULL OR queue.name = ANY (%(queues)s::text[]))
        AND NOT queue.name = ANY (%(excluded)s::text[])
        AND known.paused_at IS NULL
        --spans AND (known.max_running IS NULL OR highest = 100)
),
--units host AS MATERIALIZED (
--units     SELECT * FROM pgjobs_host_room(%(host)s, %(total)s, %(patience)s)
--units     WHERE %(limit)s > 0
--units ),
-- MATERIALIZED: run more than once, a subquery with SKIP LOCKED locks more than LIMIT.
candidate AS MATERIALIZED (
    SELECT head.*
    --units     , sum(units) OVER (ORDER BY head.priority DESC, head.turn) > free
    --units         AS is_too_much
    FROM served
    --units CROSS JOIN host
    CROSS JOIN LATERAL (
        SELECT id, priority, turn, crashes + 1 >= max_crashes AS is_suspect,
            coalesce(expires_at <= clock_timestamp() AND attempts = 0, false)
                AS is_expired
            --units , coalesce(process_units, 1) AS units
        FROM pgjobs_job
        WHERE status = 'READY' AND queue_name = served.name
            --spans AND priority BETWEEN served.lowest AND served.highest
            --spans AND turn >= served.first_turn
            --units AND coalesce(process_units, 1) <= host.free
            --units AND (priority, -turn) > (host.last_priority, -host.last_turn)
        ORDER BY priority DESC, turn
        LIMIT least(served.room, %(limit)s)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS head
    ORDER BY head.priority DESC, head.turn
    LIMIT %(limit)s
),
-- A job that may not crash once more runs alone: the batch ends before it, unless
-- it comes first and the worker has nothing else to do.
chosen AS (
    SELECT id
    FROM (
        SELECT id, row_number() OVER line AS position,
               bool_or(is_suspect) OVER line AS reached_suspect
        FROM candidate
        WHERE NOT is_expired
        --units     AND NOT is_too_much
        WINDOW line AS (ORDER BY priority DESC, turn)
    ) AS ranked
    WHERE NOT reached_suspect OR (position = 1 AND %(is_idle)s)
),
claimed AS (
    UPDATE pgjobs_job AS job
    SET status = 'RUNNING',
        attempts = least(attempts, 2147483646) + 1,
        lease_token = nextval('pgjobs_lease_token'),
        worker_id = %(worker_id)s,
        started_at = coalesce(started_at, clock_timestamp()),
        last_attempted_at = clock_timestamp()
    WHERE job.id = ANY (ARRAY(SELECT id FROM chosen))
    RETURNING id, task, args::text, kwargs::text, queue_name, priority, attempts,
              failures, max_attempts, crashes, max_crashes, timeout, life,
              lease_token, enqueued_at, keys IS NOT NULL AS is_keyed,
              dependencies IS NOT NULL AS is_tied, turn
),
summary AS (
    SELECT
        (SELECT array_agg(lease_token) FROM recorded) AS recorded,
        (SELECT bool_or(line IS NOT NULL) FROM recorded) AS holds_back,
        clock_timestamp() AS begun_at,
        (
            SELECT extract(epoch FROM least(
                (
                    SELECT run_after FROM pgjobs_job WHERE status = 'SCHEDULED'
                        --spans AND run_after > statement_timestamp() - interval '1 s'
                    ORDER BY run_after LIMIT 1
                ),
                (SELECT min(opens_at) FROM pgjobs_rate)
            ) - clock_timestamp())::float8
        ) AS next_due,
        (SELECT bool_or(is_suspect) FROM candidate WHERE NOT is_expired)
            AS met_suspect,
        -- READY jobs that another transaction has locked, or for which their queue has
        -- no room: it may yet let them go, or have.
        --units EXISTS (SELECT FROM candidate WHERE is_too_much) OR
        (SELECT count(*) FROM candidate) < %(limit)s AND EXISTS (
            SELECT FROM served CROSS JOIN LATERAL (
                SELECT FROM pgjobs_job
                WHERE status = 'READY' AND queue_name = served.name
                    --spans AND priority BETWEEN served.lowest AND served.highest
                    --spans AND turn >= served.first_turn
                    AND NOT id = ANY (ARRAY(SELECT id FROM candidate))
                    --units AND coalesce(process_units, 1) <= %(total)s
                LIMIT 1
            ) AS locked
        ) AS met_locked,
        -- These are rare: another statement cancels them.
        (SELECT bool_or(is_expired) FROM candidate) AS met_expired,
        clock_timestamp() AS ended_at
)
-- The summary comes as a row of its own; who reads them sorts the jobs.
SELECT recorded, summary.holds_back, next_due, met_suspect, met_locked, met_expired,
    extract(epoch FROM ended_at - begun_at)::float8 AS seconds, claimed.*
FROM summary FULL JOIN claimed ON false
