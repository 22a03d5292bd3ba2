-- Decide what becomes of a new job whose unique key another job holds, as `Inserting`
-- in queue/inserting.py does for many at a time. Return the id of the job that there is
-- instead. NULL means that there is none (on_conflict = 'skip'), and 0 that no job holds
-- the key any more.
CREATE OR REPLACE FUNCTION pgjobs_conflict(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    replaced bigint;
    holder pgjobs_job;
BEGIN
    IF job.unique_for = 'period' THEN
        PERFORM pgjobs_free_keys(ARRAY[job.unique_key]);
    END IF;
    IF on_conflict = 'replace' THEN
        SELECT * INTO replaced FROM pgjobs_replace_held(
            ARRAY[job.unique_key], ARRAY[job.unique_for], ARRAY[job.args],
            ARRAY[job.kwargs], ARRAY[job.keys], ARRAY[job.dependencies],
            ARRAY[job.run_after], ARRAY[job.expires_at], ARRAY[job.meta]
        );
        IF FOUND THEN
            RETURN replaced;
        END IF;
    END IF;
    SELECT * INTO holder FROM pgjobs_job
    WHERE unique_key = job.unique_key AND unique_for = job.unique_for
        AND pgjobs_holds_key(
            unique_for, unique_until, status, attempts, finished_at
        );
    IF NOT FOUND THEN
        RETURN 0;
    ELSIF on_conflict = 'raise' THEN
        RAISE EXCEPTION 'Job % (%) already holds the unique key ''%''.',
            holder.id, holder.task, holder.unique_key
            USING ERRCODE = '23505', COLUMN = 'unique_key';
    ELSIF on_conflict = 'replace' AND holder.attempts = 0
        AND holder.finished_at IS NULL
    THEN
        RETURN 0;  -- the holder came after the replacement
    END IF;
    RETURN CASE WHEN on_conflict <> 'skip' THEN holder.id END;
END
$$;
