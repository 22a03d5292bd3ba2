-- Return whether a job with a unique key holds it. While it does, no other job can have
-- the key. A job counts as started from its first attempt on, for good. So a job that
-- goes back to the queue cannot meet a newer one with its key.
--
-- The unique index of the jobs calls this function. It is in PL/pgSQL, which PostgreSQL
-- does not inline: parsing an inlined condition with each statement took 13 us of an
-- INSERT, also for jobs without keys.
--
-- Never replace it: the index would keep the answers of the old one. A change is a
-- function with a new name in a file of its own, and a new index that calls it. A
-- migration creates both and drops the old ones.
CREATE FUNCTION pgjobs_holds_key(
    unique_for text, unique_until timestamptz,
    status text, attempts integer, finished_at timestamptz
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE unique_for
        WHEN 'unfinished' THEN finished_at IS NULL
        WHEN 'waiting' THEN finished_at IS NULL AND attempts = 0
        ELSE unique_until IS NOT NULL AND status NOT IN ('FAILED', 'CANCELLED')
    END;
END
$$;
