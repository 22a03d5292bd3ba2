-- Store the metadata of a running job, if it still has this token.
UPDATE pgjobs_job
SET meta = coalesce(meta, '{}') || %(metadata)s::jsonb
WHERE id = %(id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
RETURNING id
