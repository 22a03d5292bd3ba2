-- Return the life of which this one has kept steps, or the life itself.
SELECT coalesce(
    (
        SELECT kept_from FROM pgjobs_step
        WHERE job_id = %(job_id)s AND life = %(life)s AND kept_from IS NOT NULL
        LIMIT 1
    ),
    %(life)s
)
