-- Delete what a job waits for whose life ends: its open waits, the links to the jobs for
-- which it waited, and its notes. What it took stays with its steps, and so do answers that
-- it has not taken. The caller has locked its row.
--
-- Rows that another transaction holds stay: an answer leaves a note of a job that does not
-- wait, and a worker that has the note sees to both. Workers also do it for a role that may
-- not, and where to lock a row that has changed would be an error.
CREATE OR REPLACE FUNCTION pgjobs_forget_waits(job bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF NOT has_table_privilege('pgjobs_wait', 'DELETE') THEN
        RETURN;
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM pgjobs_note_waiting(ARRAY[job]);
        RETURN;
    END IF;
    DELETE FROM pgjobs_wait
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_wait WHERE job_id = job AND ended_at IS NULL
        FOR UPDATE SKIP LOCKED
    ));
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_waitnote WHERE job_id = job FOR UPDATE SKIP LOCKED
    ));
    PERFORM pgjobs_drop_waited_links(ARRAY[job]);
END
$$;
