-- LIKE is what the index of the line says, so that no other statement walks along it.
SELECT id, queue_name, priority, turn,
    crashes + 1 >= max_crashes AS is_suspect,
    (expires_at <= clock_timestamp() AND attempts = 0) IS TRUE AS is_expired
FROM pgjobs_job
WHERE status LIKE 'READY%%'
    AND CASE
        WHEN age(xmax) BETWEEN -1000000 AND (SELECT oldest FROM present)
            THEN NOT pg_visible_in_snapshot(
                ((SELECT number_of_age_0 FROM present) - age(xmax))::text::xid8,
                (SELECT snapshot FROM present)
            )
        ELSE false
    END = is_held
    AND (
        NOT %(skips_expired)s OR attempts > 0
        OR expires_at > clock_timestamp() IS NOT FALSE
    )
