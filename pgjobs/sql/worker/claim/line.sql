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
