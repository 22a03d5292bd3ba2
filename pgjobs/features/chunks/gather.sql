-- Let a job that this worker has just claimed take others of its task along, for one call.
--
-- These are jobs that the same claim has brought (others), and then the first READY ones
-- of its task, queue, time limit and key, up to a number of jobs and of bytes. A job that
-- waits for others of its task alone (chunk_wait) comes, too, unless SQL has given it what
-- an admission must look at: a lock, limit, rate or dependency. A job that must run alone
-- takes the rest of its part along, or nobody: see functions/chunk_key.sql. Each row keeps
-- its place in the call, by which a rescue halves it. The first row keeps the ids of all.
WITH leader AS MATERIALIZED (
    SELECT id, task, queue_name, timeout, lease_token, attempts, life, runs_alone,
        crashes + 1 >= max_crashes AS is_last_chance,
        pgjobs_chunk_key(
            keys, kwargs, chunk, life, attempts - 1, 'READY', NULL, NULL
        ) AS chunk_key,
        octet_length(args::text) + octet_length(kwargs::text) AS bytes
    FROM pgjobs_job CROSS JOIN LATERAL (
        SELECT (
            chunk ->> 'alone' = format('%%s:%%s', life, attempts - 1)
        ) IS TRUE AS runs_alone
    ) AS mark
    WHERE id = %(id)s AND lease_token = %(lease_token)s AND worker_id = %(worker_id)s
        AND keys ? 'chunk_by'
    FOR NO KEY UPDATE OF pgjobs_job
),
held AS MATERIALIZED (
    SELECT job.id, job.priority, job.turn,
        octet_length(job.args::text) + octet_length(job.kwargs::text) AS bytes
    FROM leader JOIN pgjobs_job AS job ON job.id = ANY (%(others)s::bigint[])
    WHERE NOT is_last_chance AND job.worker_id = %(worker_id)s
        AND job.lease_token = ANY (%(tokens)s::bigint[])
        AND job.task = leader.task AND job.queue_name = leader.queue_name
        AND job.timeout IS NOT DISTINCT FROM leader.timeout
        AND job.keys ? 'chunk_by' AND job.crashes + 1 < job.max_crashes
        AND pgjobs_chunk_key(
            job.keys, job.kwargs, job.chunk, job.life, job.attempts - 1, 'READY', NULL,
            NULL
        ) = chunk_key
    ORDER BY job.id
    FOR NO KEY UPDATE OF job
),
ready AS MATERIALIZED (
    SELECT job.*
    FROM leader CROSS JOIN LATERAL (
        SELECT id, priority, turn,
            octet_length(args::text) + octet_length(kwargs::text) AS bytes
        FROM pgjobs_job
        WHERE task = leader.task AND queue_name = leader.queue_name
            AND pgjobs_chunk_key(
                keys, kwargs, chunk, life, attempts, status, run_after, enqueued_at
            ) = chunk_key
            AND status IN ('READY', 'SCHEDULED') AND keys ? 'chunk_by'
            AND (status = 'READY' OR pgjobs_first_obstacle(keys, dependencies) IS NULL)
            AND process_units IS NULL  -- nobody would count them
            AND timeout IS NOT DISTINCT FROM leader.timeout
            AND crashes + 1 < max_crashes
            AND (%(among)s::bigint[] IS NULL OR id = ANY (%(among)s::bigint[]))
            AND (expires_at <= clock_timestamp() AND attempts = 0) IS NOT TRUE
        ORDER BY priority DESC, turn
        LIMIT greatest(%(most)s - 1 - (SELECT count(*) FROM held), 0)
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job
    WHERE NOT is_last_chance
),
member AS MATERIALIZED (
    SELECT id, is_held, row_number() OVER listed AS place,
        sum(bytes) OVER listed AS bytes
    FROM (
        SELECT id, true AS is_held, 101 AS priority, 0::bigint AS turn, bytes
        FROM leader
        UNION ALL SELECT id, true, priority, turn, bytes FROM held
        UNION ALL SELECT id, false, priority, turn, bytes FROM ready
    ) AS job
    WINDOW listed AS (
        ORDER BY priority = 101 DESC, is_held DESC, priority DESC, turn
    )
),
-- The first one runs, however large it is.
taken AS MATERIALIZED (
    SELECT array_agg(id ORDER BY place) AS ids, count(*) AS number,
        array_agg(id) FILTER (WHERE is_held) AS held,
        array_agg(id ORDER BY id) AS sorted, array_agg(place ORDER BY id) AS places
    FROM member
    WHERE place <= %(most)s AND (place = 1 OR bytes <= %(most_bytes)s)
),
-- What the rows have in common is made once.
call AS MATERIALIZED (
    SELECT taken.*, jsonb_build_object(
        'call', (SELECT lease_token FROM leader), 'first', ids[1], 'members', number
    ) AS shared
    FROM taken
),
marked AS (
    UPDATE pgjobs_job AS job
    SET chunk = shared || jsonb_build_object(
        'attempt', life || ':' || attempts, 'place', array_position(ids, id)
    ) || CASE id WHEN ids[1] THEN jsonb_build_object('ids', ids) ELSE '{}' END
    FROM call
    WHERE id = ANY (held) AND number > 1
    RETURNING id
),
-- width_bucket() finds the place of an id among sorted ones by halving.
claimed AS (
    UPDATE pgjobs_job
    \ir ../../sql/worker/claim/set.sql
        last_attempted_at = clock_timestamp(),
        chunk = shared || jsonb_build_object(
            'attempt', life || ':' || least(attempts, 2147483646) + 1,
            'place', places[width_bucket(id, sorted)]
        )
    FROM call
    WHERE id = ANY (ids) AND NOT id = ANY (held)
    RETURNING
        \ir ../../sql/worker/claim/columns.sql
)
SELECT (SELECT array_agg(id) FROM marked) AS marked,
    (SELECT runs_alone FROM leader) AS runs_alone,
    claimed.*
FROM (VALUES (true)) AS one LEFT JOIN claimed ON true
