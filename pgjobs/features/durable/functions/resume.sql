-- Take what a job waits for that goes on, within its claim, and mark the step: both or
-- neither. Return what its life has done, so that the code asks nothing until then: the
-- results of steps, as JSON texts, and the events that waits took. `looks`: what it waited
-- for is not taken, or was there before it waited, so the next waits look first. NULL: so
-- much that other jobs would wait for it.
--
-- Only for a worker that runs the code which asked: the one that asked, or one of the same
-- VERSION. The code of another one may ask for something else by now, so it looks by itself
-- (take_wait.sql). So do those whose answers Python has to check, and whose time is over.
--
-- The claim has locked the job, as before the wait in take_wait.sql. Rows of the wait that an
-- answer holds are not waited for.
CREATE OR REPLACE FUNCTION pgjobs_resume(of_job bigint) RETURNS text LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    most CONSTANT integer := 64000;  -- bytes, as of the result of a step
    job pgjobs_job;
    asks record;
    taken record;
    looks boolean;
BEGIN
    SELECT * INTO job FROM pgjobs_job WHERE id = of_job;
    SELECT min(name) AS name, min(opened_at) AS opened_at, jsonb_agg(jsonb_build_object(
            'label', nullif(label, ''), 'kind', kind, 'event', event,
            'aggregate_id', aggregate_id, 'asked', asked,
            'jobs', CASE kind WHEN 'jobs' THEN asked END
        )) AS ways
    INTO asks
    FROM (
        SELECT * FROM pgjobs_wait
        WHERE job_id = job.id AND life = job.life AND ended_at IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS locked
    HAVING min(name) = max(name)
        AND bool_and(
            worker_id = job.worker_id OR pgjobs_has_code_of(job.worker_id, worker_id)
        )
        AND count(*) = (
            SELECT count(*) FROM pgjobs_wait
            WHERE job_id = job.id AND life = job.life AND ended_at IS NULL
        );
    IF FOUND THEN
        SELECT * INTO taken FROM pgjobs_first_way(job, asks.name, asks.ways);
        looks := coalesce(taken.since < asks.opened_at, true);
        IF taken.stored IS NOT NULL
            AND (taken.answer IS NULL OR pgjobs_is_accepted(taken.answer, asks.ways))
        THEN
            PERFORM pgjobs_end_wait(job, asks.name, asks.ways, taken);
        ELSE
            looks := true;
        END IF;
    ELSE
        looks := EXISTS (
            SELECT FROM pgjobs_wait
            WHERE job_id = job.id AND life = job.life AND ended_at IS NULL
        );
    END IF;
    RETURN (
        SELECT jsonb_build_object('steps', steps, 'events', events, 'looks', looks)
        FROM (
            SELECT coalesce(jsonb_object_agg(name, return_value::text), '{}') AS steps
            FROM pgjobs_step WHERE job_id = job.id AND life = job.life
            HAVING coalesce(sum(pg_column_size(return_value)), 0) <= most
        ) AS done,
        (
            SELECT coalesce(jsonb_object_agg(known.id, to_jsonb(known)), '{}') AS events
            FROM pgjobs_wait AS wait
            JOIN pgjobs_event AS known ON known.id = wait.event_id
            WHERE wait.job_id = job.id AND wait.life = job.life
            HAVING coalesce(sum(pg_column_size(known.payload)), 0) <= most
        ) AS took
    );
END
$$;
