-- A job is held if the transaction that claimed or locked it last, "xmax", had not ended
-- when the statement began. "xmax" has only 32 bits, so the age gives the full number.
-- (Where several transactions share a lock, "xmax" numbers their group instead. It
-- looks old, or far in the future, and such a job is not taken for held.)
present AS MATERIALIZED (
    SELECT snapshot, age(pg_snapshot_xmin(snapshot)::xid) AS oldest,
        pg_snapshot_xmax(snapshot)::text::bigint
            + age(pg_snapshot_xmax(snapshot)::xid) AS number_of_age_0
    FROM pg_current_snapshot() AS snapshot
),
-- LIKE is what the index of the line says, so that no other statement walks along it.
-- The ranges come in the order of the line, and the first ones may fill the list. Each
-- comes twice: jobs that are held are listed only if the others do not fill the list. So
-- several workers do not want the same jobs. Queues are compared with arrays, because in
-- most projects none is paused or limited.
line AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY priority DESC, turn) AS place
    FROM (
        SELECT job.*
        FROM unnest(
            %(are_held)s::boolean[],
            %(highest)s::int[], %(lowest)s::int[], %(first_turns)s::bigint[]
        ) AS range (is_held, highest, lowest, first_turn)
        CROSS JOIN LATERAL (
            SELECT id, queue_name, priority, turn,
                crashes + 1 >= max_crashes AS is_suspect,
                (expires_at <= clock_timestamp() AND attempts = 0) IS TRUE AS is_expired
            FROM pgjobs_job
            WHERE status LIKE 'READY%%' AND priority BETWEEN lowest AND highest
                AND turn >= first_turn
                AND CASE
                    WHEN age(xmax) BETWEEN -1000000 AND (SELECT oldest FROM present)
                        THEN NOT pg_visible_in_snapshot(
                            ((SELECT number_of_age_0 FROM present) - age(xmax))
                                ::text::xid8,
                            (SELECT snapshot FROM present)
                        )
                    ELSE false
                END = is_held
                AND (
                    NOT %(skips_expired)s OR attempts > 0
                    OR expires_at > clock_timestamp() IS NOT FALSE
                )
            ORDER BY priority DESC, turn LIMIT %(reach)s
        ) AS job
        LIMIT %(reach)s
    ) AS found
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
