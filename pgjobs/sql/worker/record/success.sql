-- Token and owner guard the record. A guard by status would tempt the planner to the
-- index of running jobs, which looks small and is slow when dead tuples fill it. The
-- arrays are in the order of the ids, so that width_bucket() finds the place of one by
-- halving: to look for a token among hundreds, for each row, takes longer than to lock it.
UPDATE pgjobs_job
SET status = 'SUCCESSFUL',
    finished_at = clock_timestamp(),
    return_value = (%(return_values)s::text[])[
        width_bucket(id, %(ids)s::bigint[])
    ]::jsonb,
    reason = '',
    -- Other jobs may wait for its end, so an admission follows.
    line = CASE WHEN pgjobs_ends_for_others(keys) THEN 'recorded' END,
    worker_id = NULL,
    worker_name = %(worker_name)s
WHERE id = ANY (%(ids)s::bigint[])
    AND lease_token = (%(lease_tokens)s::bigint[])[
        width_bucket(id, %(ids)s::bigint[])
    ]
    AND worker_id = %(worker_id)s
