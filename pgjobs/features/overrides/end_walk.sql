-- These pauses hold all their jobs. One that was changed meanwhile is looked at again.
UPDATE pgjobs_override SET is_held = true
WHERE id = ANY (%(ids)s) AND NOT is_held
    AND changed_in > 0
    AND changed_in < (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint
RETURNING id
