-- Mark a running job whose task is encrypted and that was inserted without, if the job
-- still has this token. From now on what it stores is encrypted. What was masked stays so.
WITH marked AS (
    UPDATE pgjobs_job SET keys = %(marks)s::jsonb || coalesce(keys, '{}')
    WHERE id = %(job_id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
    RETURNING id
)
SELECT count(*) FROM marked
