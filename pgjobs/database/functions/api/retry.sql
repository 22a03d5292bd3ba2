-- Put a finished job back in the queue: the act of sql/retry.sql on one job.
CREATE OR REPLACE FUNCTION pgjobs_retry(id bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    retried pgjobs_job;
BEGIN
    LOOP
        BEGIN
            UPDATE pgjobs_job AS job
            SET status = CASE
                    WHEN run_after > clock_timestamp() THEN 'SCHEDULED'
                    ELSE 'READY'
                END,
                life = life + 1,
                attempts = 0, failures = 0, crashes = 0,
                started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
                expires_at = NULL, cancel_requested_at = NULL, return_value = NULL,
                reason = '', blocked_by_id = NULL,
                -- An end that no admission has seen: the trigger overlooks it otherwise.
                line = CASE line WHEN 'recorded' THEN 'left' ELSE line END,
                unique_until = CASE
                    WHEN unique_until > clock_timestamp() THEN unique_until
                END
            WHERE job.id = pgjobs_retry.id
                AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
                AND NOT EXISTS (
                    SELECT FROM pgjobs_job AS other
                    WHERE other.unique_key = job.unique_key
                        AND other.unique_for = job.unique_for
                        AND pgjobs_holds_key(
                            other.unique_for, other.unique_until, other.status,
                            other.attempts, other.finished_at
                        )
                        AND other.id <> job.id
                        AND (
                            job.unique_for <> 'period'
                            OR job.unique_until > clock_timestamp()
                        )
                )
            RETURNING * INTO retried;
            DELETE FROM pgjobs_progress WHERE job_id = retried.id;
            IF retried.id IS NOT NULL THEN
                PERFORM pgjobs_revive(ARRAY[retried.id]);
            END IF;
            RETURN retried.id IS NOT NULL;
        EXCEPTION WHEN unique_violation THEN
            -- Another job took the key first; the next look sees it.
            IF current_setting('transaction_isolation') <> 'read committed' THEN
                RAISE;
            END IF;
        END;
    END LOOP;
END
$$;
