-- Forget those of the locked notes whose job does not wait for a dependency any more.
DELETE FROM pgjobs_unsettled AS note
WHERE id = ANY (%(ids)s)
    AND NOT EXISTS (
        SELECT FROM pgjobs_job
        WHERE id = note.key::bigint AND waiting_for = 'dependency'
    )
