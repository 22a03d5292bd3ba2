-- Enqueue the follow-up of a job that has just ended, in the same transaction. No lasting
-- fault of the follow-up keeps the end of the job from being stored:
--
-- - What passes by itself (a lock, a deadlock, a conflict of transactions, a server that
--   lacks something) is raised: the session that stores the end does so again.
-- - An unknown task and refused arguments get their job, with all that the definition
--   says, and a worker fails it with the reason.
-- - Everything else gets none, and the reason of the ended job says why: a unique key
--   that is taken where the task raises, a lock that only Python can name. A job
--   without its key or its lock would run twice.
--
-- A job with `meta` hands it on, but for the metadata of its result.
CREATE OR REPLACE FUNCTION pgjobs_follow_up(job_id bigint, follow_up text, meta jsonb)
RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    arguments CONSTANT jsonb := jsonb_build_object('job_id', job_id);
    parent CONSTANT jsonb := jsonb_build_object('parent_id', job_id);
    longest_wait CONSTANT text := current_setting('lock_timeout');
    fault text;
BEGIN
    meta := meta - 'metadata';
    meta := CASE
        WHEN octet_length((meta || parent)::text) > 4000 THEN parent
        ELSE meta || parent
    END;
    -- A worker's other jobs would wait with it for a unique key.
    IF current_setting('application_name') LIKE 'pgjobs:loop:%' THEN
        PERFORM set_config('lock_timeout', '50ms', true);
    END IF;
    BEGIN
        BEGIN
            PERFORM pgjobs_enqueue(follow_up, arguments, meta => meta);
        EXCEPTION WHEN data_exception THEN
            PERFORM pgjobs_enqueue_refused(follow_up, arguments, meta);
        END;
    EXCEPTION WHEN transaction_rollback OR lock_not_available OR insufficient_resources
        OR operator_intervention OR system_error OR connection_exception
    THEN
        RAISE;
    WHEN OTHERS THEN
        fault := SQLERRM;
    END;
    PERFORM set_config('lock_timeout', longest_wait, true);
    IF fault IS NOT NULL THEN
        fault := format('Its follow-up %s was not enqueued: %s', follow_up, fault);
        RAISE WARNING 'pgjobs: job %: %', job_id, fault;
        UPDATE pgjobs_job AS ended
        SET reason = left(concat_ws(E'\n', nullif(reason, ''), fault), 1000)
        WHERE id = job_id;
    END IF;
END
$$;
