-- Return whether a job with a unique key holds it: as long as it does, no other job can
-- have the key. An attempt that has begun counts as started for good, so that no job
-- that goes back to the queue can meet a newer one.
--
-- The unique index of the jobs is made of this function. It is in PL/pgSQL, which
-- PostgreSQL does not inline: what it would have to parse with each statement, for jobs
-- without keys as well, took 13 us of an INSERT.
--
-- Never replace it, the index would keep what the old one said. A change is a function
-- with a new name in a file of its own, and an index made of it: a migration creates
-- both and drops the old ones.
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
