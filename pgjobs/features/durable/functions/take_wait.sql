-- Take what a wait of a running job waits for, and mark its step: both or neither.
--
-- - `ways`: an array of {"label", "kind", "event", "aggregate_id", "jobs"}. With a label
--   the step says which way it was.
-- - `accepted`: the id of the answer that the worker has checked. Others are offered, but
--   for those of code where the task asks for a plain type: these are checked here.
-- - `reads_steps`: the worker has not read the steps of the job yet.
--
-- `state`: lost (the job is another worker's), done (the step is marked already), open,
-- offered, taken or over. Of taken `stored` is what the step has. Of offered `answer` is
-- the answer. `steps` has the results of the steps that were done before, as JSON texts.
--
-- What finds nothing locks and writes nothing: whatever comes later finds the job by the
-- notes. The job is locked before the wait, as by an answer. Rows of the wait that an
-- answer holds are not waited for: its transaction may take long.
CREATE OR REPLACE FUNCTION pgjobs_take_wait(
    id bigint, token bigint, wait_name text, ways jsonb, accepted bigint,
    reads_steps boolean,
    OUT state text, OUT stored jsonb, OUT answer jsonb, OUT steps jsonb
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    job pgjobs_job;
    taken record;
BEGIN
    SELECT * INTO job FROM pgjobs_job AS each
    WHERE each.id = pgjobs_take_wait.id AND each.lease_token = token
        AND each.worker_id IS NOT NULL;
    IF NOT FOUND THEN
        state := 'lost';
        RETURN;
    END IF;
    IF reads_steps THEN
        SELECT coalesce(jsonb_object_agg(step.name, step.return_value::text), '{}')
        INTO steps
        FROM pgjobs_step AS step
        WHERE step.job_id = job.id AND step.life = job.life;
        IF steps ? wait_name THEN
            state := 'done';
            RETURN;
        END IF;
    END IF;
    SELECT * INTO taken FROM pgjobs_first_way(job, wait_name, ways);
    IF taken.answer IS NOT NULL
        AND (taken.answer -> 'id')::bigint IS DISTINCT FROM accepted
        AND NOT pgjobs_is_accepted(taken.answer, ways)
    THEN
        state := 'offered';
        answer := taken.answer;
        RETURN;
    END IF;
    state := CASE
        WHEN taken.stored IS NOT NULL THEN 'taken'
        WHEN EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = job.id AND wait.life = job.life
                AND wait.name = wait_name AND wait.deadline <= clock_timestamp()
        ) THEN 'over'
        ELSE 'open'
    END;
    IF state = 'open' THEN
        RETURN;
    END IF;
    PERFORM FROM pgjobs_job AS each
    WHERE each.id = job.id AND each.lease_token = token AND each.worker_id IS NOT NULL
    FOR KEY SHARE;
    IF NOT FOUND THEN
        state := 'lost';
        RETURN;
    END IF;
    IF cardinality(pgjobs_locked_waits(job.id, job.life, wait_name)) <> (
        SELECT count(*) FROM pgjobs_wait AS wait
        WHERE wait.job_id = job.id AND wait.life = job.life AND wait.name = wait_name
    ) THEN
        state := 'open';
        RETURN;
    END IF;
    IF state = 'over' THEN
        -- An answer may have come just before the lock. Then the job looks again soon.
        SELECT * INTO taken FROM pgjobs_first_way(job, wait_name, ways);
        IF taken.stored IS NOT NULL THEN
            state := 'open';
            RETURN;
        END IF;
    END IF;
    stored := taken.stored;
    IF NOT pgjobs_end_wait(job, wait_name, ways, taken) THEN
        state := 'done';
    END IF;
END
$$;
