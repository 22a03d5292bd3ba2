-- Record successes, and claim the first jobs in line.
--
-- All in one round trip and one commit.
--
-- The claim walks along the line of all queues and drops the jobs that the worker does
-- not serve. A job of a limited queue ends the walk, and so does the length "reach".
-- Then the claim says "has_more", and the worker goes on with claim_by_queue.sql. So no
-- look takes a line for empty without having seen its end.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
-- LIKE is what the index of the line says, so that no other statement walks along it.
-- The ranges come in the order of the line: the first ones may fill the list. Queues
-- are compared with arrays, because in most projects none is paused or limited.
line AS MATERIALIZED (
    SELECT job.*, row_number() OVER () AS place
    FROM unnest(
        %(highest)s::int[], %(lowest)s::int[], %(first_turns)s::bigint[]
    ) AS range (highest, lowest, first_turn)
    CROSS JOIN LATERAL (
        SELECT id, queue_name, crashes + 1 >= max_crashes AS is_suspect,
            (expires_at <= clock_timestamp() AND attempts = 0) IS TRUE AS is_expired
        FROM pgjobs_job
        WHERE status LIKE 'READY%%' AND priority BETWEEN lowest AND highest
            AND turn >= first_turn
            AND (
                NOT %(skips_expired)s OR attempts > 0
                OR expires_at > clock_timestamp() IS NOT FALSE
            )
        ORDER BY priority DESC, turn LIMIT %(reach)s
    ) AS job
    LIMIT %(reach)s
),
listed AS MATERIALIZED (
    SELECT *, queue_name = ANY (ARRAY(
        SELECT name FROM pgjobs_queue WHERE max_running IS NOT NULL
    )) AS is_limited
    FROM line
    WHERE coalesce(queue_name = ANY (%(queues)s::text[]), true)
        AND NOT queue_name = ANY (%(excluded)s::text[])
        AND NOT queue_name = ANY (ARRAY(
            SELECT name FROM pgjobs_queue WHERE paused_at IS NOT NULL
        ))
),
eligible AS MATERIALIZED (
    SELECT id, is_suspect, place FROM listed
    WHERE NOT is_expired
        AND place < (SELECT min(place) FROM listed WHERE is_limited) IS NOT FALSE
),
\ir claim/take.sql
summary AS (
    SELECT
        (SELECT array_agg(lease_token) FROM recorded) AS recorded,
        (SELECT bool_or(line IS NOT NULL) FROM recorded) AS has_keys,
        \ir claim/look.sql
),
verdict AS (
    SELECT *,
        number < %(limit)s AND (
            (SELECT count(*) FROM line) = %(reach)s
            OR EXISTS (SELECT FROM listed WHERE is_limited)
        ) AS is_cut,
        -- READY jobs that another transaction holds: it may yet release them.
        number < %(limit)s AND number < (SELECT count(*) FROM eligible) AS met_locked
    FROM summary
)
\ir claim/result.sql
