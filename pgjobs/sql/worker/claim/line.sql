WITH recorded AS (
    UPDATE pgjobs_job
    SET status = 'SUCCESSFUL',
        finished_at = clock_timestamp(),
        return_value = (%(return_values)s::text[])[
            array_position(%(lease_tokens)s::bigint[], lease_token)
        ]::jsonb,
        reason = '',
        -- Other jobs may wait for its end, so an admission follows.
        line = CASE WHEN keys IS NOT NULL THEN 'recorded' END,
        worker_id = NULL
    WHERE id = ANY (%(ids)s::bigint[])
        AND lease_token = ANY (%(lease_tokens)s::bigint[])
        AND worker_id = %(worker_id)s
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
            coalesce(expires_at <= clock_timestamp() AND attempts = 0, false)
                AS is_expired
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
