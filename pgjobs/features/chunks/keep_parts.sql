-- Let each row keep in which part of its call it failed, for its next attempt: those of
-- one part share a call then. See constraints/chunk_key.sql.
UPDATE pgjobs_job
SET chunk = chunk || jsonb_build_object(
    'part', %(parts)s::jsonb
        ->> array_position(%(lease_tokens)s::bigint[], lease_token) - 1
)
WHERE id = ANY (%(ids)s::bigint[]) AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id IS NOT NULL AND chunk IS NOT NULL
