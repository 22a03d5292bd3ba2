-- All triggers, in firing order: BEFORE the statement, BEFORE the row is written, AFTER it,
-- AFTER the statement. PostgreSQL fires those of one moment in the order of their names. It reads
-- the conditions of all triggers of a table with each statement, so there are few.

-- The rows of an INSERT look at a setting: the statement has asked whether a task is
-- paused. Of all updates only one that makes a job READY asks, and no claim. Without a
-- page there is no override: a row has its page before its transaction ends. The number
-- comes first, as the function says.
CREATE OR REPLACE TRIGGER pgjobs_see_pauses
    BEFORE INSERT ON pgjobs_job
    FOR EACH STATEMENT
    WHEN (
        CASE
            WHEN pg_current_xact_id() IS NULL THEN true
            ELSE pg_relation_size('pgjobs_override'::regclass) > 0
        END
    )
    EXECUTE FUNCTION pgjobs_see_pauses();

-- A claim never fires it (worker_id), nor a plain job's end, nor do the functions by which an
-- admission writes: they have the setting of the last part. A job that waits always has a
-- `waiting_for`.
CREATE OR REPLACE TRIGGER pgjobs_queue_changed
    BEFORE UPDATE OF status, keys, dependencies ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.worker_id IS NULL
        AND (
            NEW.finished_at IS NULL
            OR num_nonnulls(NEW.keys, NEW.dependencies, NEW.line, NEW.waiting_for) > 0
        )
        AND current_setting('pgjobs.admits', true) IS DISTINCT FROM 'on'
    )
    EXECUTE FUNCTION pgjobs_queue_changed();

-- A plain job pays only for the conditions, and for no call. They are shorter than what
-- the functions ask.
CREATE OR REPLACE TRIGGER pgjobs_queue_inserted
    BEFORE INSERT ON pgjobs_job
    FOR EACH ROW
    WHEN (
        num_nonnulls(NEW.run_after, NEW.keys, NEW.dependencies) > 0
        OR NEW.status = 'WAITING'
    )
    EXECUTE FUNCTION pgjobs_queue_inserted();

CREATE OR REPLACE TRIGGER pgjobs_stop_inserted
    BEFORE INSERT ON pgjobs_job
    FOR EACH ROW
    WHEN (current_setting('pgjobs.pauses', true) = 'on')
    EXECUTE FUNCTION pgjobs_stop_job();

-- The columns that neither a claim nor a success names; constraints/is_job.sql has the
-- others. An admission only sets the time from which a job could run.
CREATE OR REPLACE TRIGGER pgjobs_check_changed
    AFTER UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta, keep
    ON pgjobs_job
    FOR EACH ROW WHEN (current_setting('pgjobs.admits', true) IS DISTINCT FROM 'on')
    EXECUTE FUNCTION pgjobs_check_job();

CREATE OR REPLACE TRIGGER pgjobs_check_job
    AFTER INSERT ON pgjobs_job
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_job();

CREATE OR REPLACE TRIGGER pgjobs_check_subscription
    AFTER INSERT OR UPDATE ON pgjobs_subscription
    FOR EACH ROW EXECUTE FUNCTION pgjobs_check_subscription();

-- The job was replaced by one with other keys, so the old keys are free.
CREATE OR REPLACE TRIGGER pgjobs_note_changed
    AFTER UPDATE OF keys ON pgjobs_job
    FOR EACH ROW
    WHEN (
        OLD.keys ->> 'lock' <> coalesce(NEW.keys ->> 'lock', '')
        OR OLD.keys ->> 'limit_key' <> coalesce(NEW.keys ->> 'limit_key', '')
    )
    EXECUTE FUNCTION pgjobs_note_changed();

-- Only a job with keys or dependencies can leave something behind.
CREATE OR REPLACE TRIGGER pgjobs_note_deleted
    AFTER DELETE ON pgjobs_job
    FOR EACH ROW WHEN (OLD.keys IS NOT NULL OR OLD.dependencies IS NOT NULL)
    EXECUTE FUNCTION pgjobs_note_deleted();

CREATE OR REPLACE TRIGGER pgjobs_note_ended_worker
    AFTER DELETE ON pgjobs_worker
    FOR EACH ROW EXECUTE FUNCTION pgjobs_note_ended_worker();

-- Only the claim of a READY job that has a rate calls it.
CREATE OR REPLACE TRIGGER pgjobs_note_started
    AFTER UPDATE OF last_attempted_at ON pgjobs_job
    FOR EACH ROW
    WHEN (NEW.keys ? 'rate_key' AND OLD.status = 'READY')
    EXECUTE FUNCTION pgjobs_note_started();

-- The condition keeps claims, most successes, and the jobs that an admission makes
-- READY, from paying for a call. It is shorter than what the function asks, because
-- PostgreSQL parses it with each statement.
CREATE OR REPLACE TRIGGER pgjobs_notify_changed
    AFTER UPDATE OF status ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.worker_id IS NULL
        AND CASE
            WHEN NEW.finished_at IS NULL
                THEN OLD.waiting_for IS NULL OR NEW.line IS NOT NULL
            ELSE NEW.awaited OR num_nonnulls(NEW.keys, NEW.dependencies) > 0
        END
    )
    EXECUTE FUNCTION pgjobs_notify_changed();

-- A queue that may have more room than before wakes its workers.
CREATE OR REPLACE TRIGGER pgjobs_notify_queue
    AFTER UPDATE OF paused_at, max_running OR DELETE ON pgjobs_queue
    FOR EACH ROW EXECUTE FUNCTION pgjobs_notify_queue();

-- What undoes the row: `save()` of an older instance, for one, names all columns. These
-- are the columns that neither a claim nor a success names, and PostgreSQL reads the
-- condition only for a statement that names one of them. See functions/jobs/undone.sql;
-- functions/jobs/notify_changed.sql sees to those who name the status alone.
CREATE OR REPLACE TRIGGER pgjobs_undone
    AFTER UPDATE OF
        id, task, args, kwargs, queue_name, priority, timeout, process_units,
        unique_key, unique_for, unique_until, max_attempts, max_crashes, life,
        run_after, expires_at, enqueued_at, cancel_requested_at, keys, dependencies,
        meta, failures, crashes, error_group, awaited
    ON pgjobs_job
    FOR EACH ROW
    WHEN (
        NEW.life < OLD.life
        OR NEW.life = OLD.life AND (
            NEW.attempts < OLD.attempts
            -- A rescue may have to give a lower one: functions/jobs/token_beyond.sql.
            OR NEW.lease_token < OLD.lease_token
            AND (OLD.worker_id IS NULL OR NEW.worker_id IS NOT NULL)
            OR OLD.finished_at IS NOT NULL AND NEW.status <> OLD.status
            AND (OLD.status, NEW.status) <> ('CANCELLED', 'WAITING')
        )
    )
    EXECUTE FUNCTION pgjobs_undone();

-- Who has looked says with the setting that nothing belongs to them but their rows.
CREATE OR REPLACE TRIGGER pgjobs_jobs_deleted
    AFTER DELETE ON pgjobs_job REFERENCING OLD TABLE AS deleted
    FOR EACH STATEMENT
    WHEN (current_setting('pgjobs.deletes', true) IS DISTINCT FROM 'rows')
    EXECUTE FUNCTION pgjobs_jobs_deleted();

-- TRUNCATE fires no trigger for rows.
CREATE OR REPLACE TRIGGER pgjobs_jobs_truncated
    AFTER TRUNCATE ON pgjobs_job
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_jobs_truncated();

-- One notification per queue and statement, however many rows it inserts.
CREATE OR REPLACE TRIGGER pgjobs_notify_inserted
    AFTER INSERT ON pgjobs_job REFERENCING NEW TABLE AS inserted
    FOR EACH STATEMENT EXECUTE FUNCTION pgjobs_notify_inserted();
