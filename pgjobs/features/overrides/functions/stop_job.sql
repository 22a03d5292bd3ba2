-- Insert a job as WAITING that was to be READY, if its task is paused. (One with a lock,
-- limit or rate waits for an admission, which sees the pause; pgjobs_queue_changed stops
-- one that becomes READY later.) A role that may not read overrides inserts it for an
-- admission, too. So does every transaction that reads by a snapshot of before (REPEATABLE
-- READ): it may not see a pause whose jobs workers have held already. An admission looks
-- by a snapshot of its own.
CREATE OR REPLACE FUNCTION pgjobs_stop_job() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    is_sure boolean := false;
BEGIN
    IF NEW.status <> 'READY' THEN
        RETURN NEW;
    END IF;
    IF has_table_privilege('pgjobs_override', 'SELECT') THEN
        NEW.line := pgjobs_paused_line(NEW.task, NULL);
        is_sure := current_setting('transaction_isolation') = 'read committed';
    END IF;
    IF NEW.line IS NULL AND NOT is_sure THEN
        NEW.line := 'arrived';
    END IF;
    IF NEW.line IS NOT NULL THEN
        NEW.status := 'WAITING';
        NEW.waiting_for := 'limit';
    END IF;
    RETURN NEW;
END
$$;
