-- The pauses whose READY jobs are not all held, and whether the walk that begins now will
-- find all: those that were inserted before the pause was seen have committed.
SELECT array_agg(id),
    coalesce(bool_and(
        changed_in > 0
        AND changed_in < (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint
    ), true)
FROM pgjobs_override WHERE paused_at IS NOT NULL AND NOT is_held
