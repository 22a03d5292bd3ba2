-- Mark unfinished jobs that have successors, so that an admission notices their end.
-- Return the number of notes that this left.
CREATE OR REPLACE FUNCTION pgjobs_mark(ids bigint[]) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    unmarked bigint[] := ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (ids) AND finished_at IS NULL
            AND NOT coalesce(keys ? 'has_successors', false)
    );
    number integer;
BEGIN
    IF unmarked = '{}' THEN
        RETURN 0;
    END IF;
    UPDATE pgjobs_job
    SET keys = coalesce(keys, '{}') || '{"has_successors": true}'
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE id = ANY (unmarked) AND finished_at IS NULL
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    -- A job that could not be marked, because its row is held, may end unseen.
    INSERT INTO pgjobs_note (job_id)
    SELECT id FROM pgjobs_job
    WHERE id = ANY (unmarked) AND NOT coalesce(keys ? 'has_successors', false);
    GET DIAGNOSTICS number = ROW_COUNT;
    RETURN number;
END
$$;
