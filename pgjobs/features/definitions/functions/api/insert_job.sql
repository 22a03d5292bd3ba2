-- Enqueue the job of a task "type_key.task_key", for clients that can only CALL.
CREATE OR REPLACE PROCEDURE pgjobs_insert_job(
    type_key text, task_key text, priority integer, arguments json
) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    PERFORM pgjobs_enqueue(
        type_key || '.' || task_key, arguments::jsonb, priority => priority
    );
END
$$;
