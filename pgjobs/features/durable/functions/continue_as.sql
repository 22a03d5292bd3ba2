-- Let a job go on as another one, the successor, which has everything of it but arguments
-- and steps. The job's own row ends, and gives up what counts for others: it has no batch,
-- no follow-up and no unique key any more, and provides nothing. The mark `continued_as`
-- says that it has not ended: what waits for it waits for the successor. An admission
-- moves its links.
--
-- `stores`: the new `args` and `kwargs` as JSON texts, and the `keys` that the task
-- declares now.
-- `status`: CONTINUED, or CANCELLED if the job was to be cancelled. No row: it is another
-- worker's.
--
-- An answer locks the job's row with KEY SHARE. This waits for it, and hands it on.
CREATE OR REPLACE FUNCTION pgjobs_continue_as(
    job bigint, token bigint, worker bigint, name_of_worker text, stores jsonb
) RETURNS TABLE (lease_token bigint, status text) LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
    old pgjobs_job;
    successor bigint;
BEGIN
    SELECT * INTO old FROM pgjobs_job AS each
    WHERE each.id = job AND each.lease_token = token AND each.worker_id = worker
    FOR UPDATE;
    IF old.id IS NULL THEN
        RETURN;
    END IF;
    IF old.cancel_requested_at IS NOT NULL THEN
        INSERT INTO pgjobs_attempt (
            job_id, life, number, worker_name, started_at, finished_at, outcome, message
        )
        VALUES (
            old.id, old.life, old.attempts, name_of_worker, old.last_attempted_at,
            clock_timestamp(), 'CANCELLED', old.reason
        )
        ON CONFLICT DO NOTHING;
        UPDATE pgjobs_job AS each
        SET status = 'CANCELLED', finished_at = clock_timestamp(), worker_id = NULL
        WHERE each.id = old.id;
        RETURN QUERY SELECT token, 'CANCELLED';
        RETURN;
    END IF;
    successor := nextval('pgjobs_job_id_seq');
    UPDATE pgjobs_job AS each
    SET status = 'SUCCESSFUL', finished_at = clock_timestamp(), worker_id = NULL,
        worker_name = name_of_worker,
        reason = format('It goes on as job %s.', successor),
        keys = coalesce(old.keys, '{}') - ARRAY['batch_id', 'on_success', 'on_failure']
            || jsonb_build_object('continued_as', successor),
        batch_id = NULL, dependencies = NULL, unique_until = NULL
    WHERE each.id = old.id;
    IF old.dependencies IS NOT NULL THEN
        DELETE FROM pgjobs_prerequisite WHERE job_id = old.id;
    END IF;
    PERFORM pgjobs_insert_successor(old, successor, stores);
    PERFORM pgjobs_hand_on(old, successor);
    RETURN QUERY SELECT token, 'CONTINUED';
END
$$;
