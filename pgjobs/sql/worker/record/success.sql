-- Token and owner guard the record. A guard by status would tempt the planner to the
-- index of running jobs, which looks small and is slow when dead tuples fill it. Ids
-- and tokens are two arrays: a token is drawn only once, so it fits no other id, and a
-- join would compare each pair.
UPDATE pgjobs_job
SET status = 'SUCCESSFUL',
    finished_at = clock_timestamp(),
    return_value = (%(return_values)s::text[])[
        array_position(%(lease_tokens)s::bigint[], lease_token)
    ]::jsonb,
    reason = '',
    -- Other jobs may wait for its end, so an admission follows.
    line = CASE WHEN pgjobs_ends_for_others(keys) THEN 'recorded' END,
    worker_id = NULL,
    worker_name = %(worker_name)s
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = ANY (%(lease_tokens)s::bigint[])
    AND worker_id = %(worker_id)s
