-- Refuse a subscription whose jobs would be refused, because each publication would
-- fail with them. This inserts such a job and rolls it back, so that it repeats no
-- rule.
CREATE OR REPLACE FUNCTION pgjobs_check_subscription() RETURNS trigger
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    INSERT INTO pgjobs_job
        (task, queue_name, priority, max_attempts, max_crashes, timeout, expires_at,
         process_units, keys)
    VALUES
        (NEW.task, NEW.queue_name, NEW.priority, NEW.max_attempts, NEW.max_crashes,
         NEW.timeout, clock_timestamp() + make_interval(secs => NEW.expires_in),
         NEW.process_units, NEW.keys);
    RAISE 'It could be inserted.' USING ERRCODE = 'PJ000';
EXCEPTION WHEN SQLSTATE 'PJ000' THEN
    RETURN NULL;
END
$$;
