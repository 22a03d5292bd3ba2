-- Leave a note of the old keys of a job whose lock or limit was replaced.
CREATE OR REPLACE FUNCTION pgjobs_note_changed() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_leave_note(NULL, OLD.keys);
    RETURN NULL;
END
$$;
