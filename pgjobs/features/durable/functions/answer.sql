-- Answer to a job, in the caller's transaction. It returns false where nothing waits for
-- it any more: the job has ended or is gone, the wait has ended, or there is an answer.
-- The answer's type is checked if the task has asked, and again when the task takes it.
CREATE OR REPLACE FUNCTION pgjobs_answer(id bigint, name text, value jsonb)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF EXISTS (
        SELECT FROM pgjobs_job AS job
        WHERE job.id = pgjobs_newest(pgjobs_answer.id) AND job.keys ? 'encrypted'
    ) THEN
        RAISE EXCEPTION 'SQL cannot answer job %: its answers are encrypted.', id
            USING ERRCODE = '0A000', COLUMN = 'id',
                HINT = 'Answer it from Python, by job.answer(...), or on its page.';
    END IF;
    RETURN pgjobs_store_answer(id, name, value, NULL, NULL);
END
$$;
