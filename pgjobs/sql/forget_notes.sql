-- Forget notes about jobs that do not wait for a dependency any more.
DELETE FROM pgjobs_unsettled AS note
WHERE kind = 'dependency'
    AND NOT EXISTS (
        SELECT FROM pgjobs_job
        WHERE id = note.key::bigint AND waiting_for = 'dependency'
    )
