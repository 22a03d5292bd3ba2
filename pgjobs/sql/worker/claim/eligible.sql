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
