-- Delete jobs that do not run.
DELETE FROM pgjobs_job
WHERE id = ANY (
    ARRAY(
        SELECT id FROM pgjobs_job AS job
        WHERE id = ANY (%(ids)s::bigint[]) AND status <> 'RUNNING'
            AND NOT /*referred*/ false  -- by other tables: see queue/references.py
        ORDER BY id
        FOR UPDATE
    )
)
RETURNING id, false
