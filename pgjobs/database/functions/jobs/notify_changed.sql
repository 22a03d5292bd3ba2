-- Notify the workers, and whatever waits for the job's end, of a change of status, and
-- enqueue what follows that end. A job that goes back to the queue within its life keeps
-- its attempts, and once it has ended it goes back only as one that was cancelled. This
-- is one function for six purposes, because PostgreSQL parses the condition of each
-- trigger with each statement. It calls pgjobs_provide and pgjobs_follow_up by their full
-- names, because the search path is that of the statement that changes the job.
CREATE OR REPLACE FUNCTION pgjobs_notify_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
DECLARE
    follow_up text;
BEGIN
    IF NEW.life = OLD.life AND (
        NEW.attempts < OLD.attempts
        OR OLD.finished_at IS NOT NULL AND NEW.finished_at IS NULL
        AND (OLD.status, NEW.status) <> ('CANCELLED', 'WAITING')
    ) THEN
        RAISE 'Job % cannot go back from % to % within its life.',
            OLD.id, OLD.status, NEW.status
            USING ERRCODE = 'check_violation', CONSTRAINT = 'pgjobs_is_job',
                HINT = 'To run a finished job again, call job.retry() or '
                    'pgjobs_retry(id).';
    END IF;
    -- An admission itself notifies of the jobs that it makes READY. A job whose
    -- dependencies are known has provided something if it has ended, now or before.
    IF OLD.status = NEW.status OR (
        NEW.finished_at IS NULL AND OLD.status <> 'WAITING'
        OR NEW.line = 'left' OR NEW.awaited
        OR NEW.keys ?| ARRAY['on_success', 'on_failure']
        OR NEW.dependencies IS NOT NULL
        AND coalesce(OLD.finished_at, NEW.finished_at) IS NOT NULL
    ) IS NOT TRUE
    THEN
        RETURN NULL;
    END IF;
    IF NEW.line IN ('arrived', 'unlinked', 'left') THEN
        PERFORM pg_catalog.pg_notify('pgjobs_admission', NEW.queue_name);
    END IF;
    IF NEW.status IN ('READY', 'SCHEDULED') THEN
        PERFORM pg_catalog.pg_notify('pgjobs', NEW.queue_name);
    END IF;
    IF NEW.awaited AND NEW.finished_at IS NOT NULL THEN
        PERFORM pg_catalog.pg_notify('pgjobs_finished', NEW.id::text);
    END IF;
    IF NEW.dependencies IS NOT NULL THEN
        EXECUTE pg_catalog.format('SELECT %I.pgjobs_provide($1)', TG_TABLE_SCHEMA)
            USING NEW.id;
    END IF;
    IF NEW.finished_at IS NOT NULL AND OLD.finished_at IS NULL THEN
        follow_up := NEW.keys ->> CASE NEW.status
            WHEN 'SUCCESSFUL' THEN 'on_success' WHEN 'FAILED' THEN 'on_failure'
        END;
        IF follow_up IS NOT NULL THEN
            EXECUTE pg_catalog.format(
                'SELECT %I.pgjobs_follow_up($1, $2, $3)', TG_TABLE_SCHEMA
            ) USING NEW.id, follow_up, NEW.meta;
        END IF;
    END IF;
    RETURN NULL;
END
$$;
