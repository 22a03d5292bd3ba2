-- Leave a note of a deleted job, because its keys are free now and its successors wait
-- in vain. Delete the rows that belong to the job.
CREATE OR REPLACE FUNCTION pgjobs_note_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF pgjobs_ends_for_others(OLD.keys)
        AND (OLD.finished_at IS NULL OR OLD.line IS NOT NULL)
    THEN
        PERFORM pgjobs_leave_note(OLD.id, OLD.keys);
    END IF;
    IF (
            OLD.keys ?| ARRAY['after', 'after_batches']
            OR OLD.dependencies IS NOT NULL
        )
        AND has_table_privilege('pgjobs_predecessor', 'SELECT')
        AND has_table_privilege('pgjobs_predecessor', 'DELETE')
    THEN
        DELETE FROM pgjobs_predecessor AS link WHERE link.job_id = OLD.id;
    END IF;
    IF OLD.dependencies IS NOT NULL THEN
        PERFORM pgjobs_provide(OLD.id);
    END IF;
    RETURN NULL;
END
$$;
