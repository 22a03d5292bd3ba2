-- Enqueue the follow-up of a job that has just ended, in the same transaction. No fault
-- of the follow-up may keep the end of the job from being stored. A task that the
-- database does not know, or that takes no job_id, gets its job all the same, and a
-- worker fails that job with the reason. A job with `meta` hands it on.
CREATE OR REPLACE FUNCTION pgjobs_follow_up(job_id bigint, follow_up text, meta jsonb)
RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_enqueue(
        follow_up, jsonb_build_object('job_id', job_id),
        meta => meta || jsonb_build_object('parent_id', job_id)
    );
EXCEPTION WHEN OTHERS THEN
    INSERT INTO pgjobs_job (task, kwargs)
    VALUES (follow_up, jsonb_build_object('job_id', job_id));
END
$$;
