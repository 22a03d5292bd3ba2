-- Put a finished job back in the queue.
CREATE OR REPLACE FUNCTION pgjobs_retry(id bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    LOOP
        BEGIN
            IF NOT EXISTS (SELECT FROM pgjobs_retry_jobs(ARRAY[id])) THEN
                RETURN false;
            END IF;
            PERFORM pgjobs_note_act('retry', id, NULL);
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
