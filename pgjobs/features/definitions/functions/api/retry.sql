-- Put a finished job back in the queue. With `keep_steps` it goes on behind what it has
-- finished, with `until` at this step.
CREATE OR REPLACE FUNCTION pgjobs_retry(
    id bigint, keep_steps boolean DEFAULT false, until text DEFAULT NULL
) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    LOOP
        BEGIN
            IF keep_steps OR until IS NOT NULL THEN
                PERFORM pgjobs_retry_keeping(ARRAY[id], until);
            ELSE
                PERFORM pgjobs_retry_jobs(ARRAY[id]);
            END IF;
            IF NOT FOUND THEN
                RETURN false;
            END IF;
            PERFORM pgjobs_audit_act('retry', id, NULL);
            RETURN true;
        EXCEPTION WHEN unique_violation THEN
            -- Another job took the unique key first; the next try sees that job.
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
