-- Return whether others may wait for the end of a job with these keys, so that an admission
-- has to look at it. What a job keeps for its own waits, how long it may live, that it has a
-- process of its own, and what of it is masked or encrypted is no such key. NULL: it has none.
CREATE OR REPLACE FUNCTION pgjobs_ends_for_others(keys jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT keys - '{version,waits_for,enqueued_in,deadline,ends_at,'
        'isolated,masked,encrypted,chunk_by,chunk_wait}'::text[] <> '{}'
$$;
