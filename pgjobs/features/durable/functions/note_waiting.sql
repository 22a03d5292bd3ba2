-- Leave notes of jobs whose waits may have ended.
CREATE OR REPLACE FUNCTION pgjobs_note_waiting(ids bigint[]) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_waitnote (job_id) SELECT unnest(ids);
    PERFORM pg_notify('pgjobs_wake', '');
END
$$;
