-- Delete the rows that belong to the jobs of a TRUNCATE.
CREATE OR REPLACE FUNCTION pgjobs_note_truncated() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    DELETE FROM pgjobs_predecessor;
    DELETE FROM pgjobs_batch;
    DELETE FROM pgjobs_note;
    DELETE FROM pgjobs_prerequisite;
    RETURN NULL;
END
$$;
