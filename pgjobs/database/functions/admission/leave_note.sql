-- Leave a note for the next admission where no row can say so, because the row is gone
-- or has other keys now. A role that may not insert notes leaves none. Then the sweep
-- finds the jobs that wait for nothing.
CREATE OR REPLACE FUNCTION pgjobs_leave_note(job_id bigint, keys jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF has_table_privilege('pgjobs_note', 'INSERT') THEN
        INSERT INTO pgjobs_note (job_id, keys) VALUES (job_id, keys);
    END IF;
    PERFORM pg_notify('pgjobs_admission', '');
END
$$;
