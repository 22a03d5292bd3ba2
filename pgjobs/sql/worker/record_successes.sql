-- Record jobs that succeeded, as record_and_claim.sql does, ahead of another statement.
UPDATE pgjobs_job
SET status = 'SUCCESSFUL',
    finished_at = clock_timestamp(),
    return_value = (%(return_values)s::text[])[
        array_position(%(lease_tokens)s::bigint[], lease_token)
    ]::jsonb,
    reason = '',
    line = CASE WHEN keys IS NOT NULL THEN 'recorded' END,
    worker_id = NULL,
    worker_name = %(worker_name)s
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id = %(worker_id)s
RETURNING lease_token, line IS NOT NULL AS has_keys
