-- Mark a step, a sleep or a wait of a job as done, with this value, and let the job go on.
-- Return whether that changed anything: not while the job runs or before it has begun,
-- and not if the step is done.
CREATE OR REPLACE FUNCTION pgjobs_mark_step(id bigint, name text, value jsonb)
RETURNS boolean LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
    was_pending boolean;
BEGIN
    SELECT * INTO job FROM pgjobs_job AS each
    WHERE each.id = pgjobs_mark_step.id AND each.worker_id IS NULL
        AND (each.attempts > 0 OR each.life > 1)
    FOR NO KEY UPDATE;
    IF job.id IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO pgjobs_step AS step
        (job_id, life, name, return_value, attempt, finished_at)
    VALUES (
        job.id, job.life, pgjobs_mark_step.name, nullif(value, 'null'), job.attempts,
        clock_timestamp()
    )
    ON CONFLICT ON CONSTRAINT pgjobs_step_once DO UPDATE
    SET finished_at = excluded.finished_at, return_value = excluded.return_value
    WHERE step.finished_at > excluded.finished_at;  -- a sleep
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE pgjobs_wait AS wait SET ended_at = clock_timestamp()
    WHERE wait.job_id = job.id AND wait.life = job.life
        AND wait.name = pgjobs_mark_step.name AND wait.ended_at IS NULL;
    PERFORM pgjobs_let_go_on(ARRAY[job.id]);
    -- Whatever makes a job due ends its sleep, also one of another name.
    UPDATE pgjobs_job AS each SET status = 'READY', run_after = clock_timestamp()
    WHERE each.id = job.id AND each.status || '' = 'SCHEDULED'
        AND NOT pgjobs_is_asleep(job.id, job.life, each.run_after);
    IF FOUND THEN
        PERFORM pg_notify(channel, job.queue_name)
        FROM unnest(ARRAY['pgjobs', 'pgjobs_admission']) AS channel;
    END IF;
    RETURN true;
END
$$;
