-- Delete jobs that do not run.
DELETE FROM pgjobs_job
WHERE id = ANY (
    ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (%(ids)s::bigint[]) AND status <> 'RUNNING'
        ORDER BY id
        FOR UPDATE
    )
)
RETURNING id, false
