-- Put finished jobs back in the queue, as pgjobs_retry_jobs, with the steps that they have
-- finished, or with those before the step `until`. Sleeps that have not ended, and waits
-- whose time was over, start again. A sleep has ended, too, if the job was started after it:
-- somebody may have made it due. What an event of the kept waits was stays known, so no
-- other wait takes it. Answers that no wait has taken are kept unless the job goes back
-- before a step that it has finished: there it asks again.
CREATE OR REPLACE FUNCTION pgjobs_retry_keeping(ids bigint[], until text)
RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    -- A retry counts from 0 again.
    attempts_before CONSTANT jsonb := (
        SELECT jsonb_object_agg(id, attempts) FROM pgjobs_job WHERE id = ANY (ids)
    );
    retried CONSTANT bigint[] := ARRAY(SELECT pgjobs_retry_jobs(ids));
BEGIN
    WITH kept AS MATERIALIZED (
        SELECT step.*, job.life AS new_life
        FROM unnest(retried) AS given (id)
        JOIN pgjobs_job AS job ON job.id = given.id
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_step
            WHERE job_id = job.id AND life = job.life - 1 OFFSET 0
        ) AS step
        WHERE (
                step.finished_at <= clock_timestamp()
                OR step.attempt < (attempts_before -> step.job_id::text)::integer
            )
            AND (step.return_value IS NOT NULL OR NOT EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = step.job_id AND wait.life = step.life
                    AND wait.name = step.name
            ))
            AND coalesce(step.id < (
                SELECT id FROM pgjobs_step AS last
                WHERE last.job_id = step.job_id AND last.life = step.life
                    AND last.name = until
            ), true)
    ),
    copied AS (
        INSERT INTO pgjobs_step
            (job_id, life, name, return_value, attempt, finished_at, kept_from)
        SELECT job_id, new_life, name, return_value, attempt,
            least(finished_at, clock_timestamp()),
            coalesce(min(kept_from) OVER (PARTITION BY job_id), life)
        FROM kept
        ORDER BY id
    ),
    answered AS (
        INSERT INTO pgjobs_answer
            (job_id, life, name, value, answered_by, answered_at)
        SELECT answer.job_id, answer.life + 1, answer.name, answer.value,
            answer.answered_by, answer.answered_at
        FROM unnest(retried) AS given (id)
        JOIN pgjobs_job AS job ON job.id = given.id
        CROSS JOIN LATERAL (
            SELECT * FROM pgjobs_answer
            WHERE job_id = job.id AND life = job.life - 1 OFFSET 0
        ) AS answer
        WHERE NOT EXISTS (
                SELECT FROM pgjobs_step AS step
                WHERE step.job_id = answer.job_id AND step.life = answer.life
                    AND step.name IN (answer.name, until)
                    AND step.finished_at <= clock_timestamp()
            )
            AND NOT EXISTS (
                SELECT FROM pgjobs_wait AS wait
                WHERE wait.job_id = answer.job_id AND wait.life = answer.life
                    AND wait.ended_at IS NOT NULL
                    AND coalesce(nullif(wait.label, ''), wait.name) = answer.name
            )
    )
    INSERT INTO pgjobs_wait
        (job_id, life, name, label, kind, event, aggregate_id, asked, deadline,
         opened_at, ended_at, event_id)
    SELECT wait.job_id, kept.new_life, wait.name, wait.label, wait.kind, wait.event,
        wait.aggregate_id, wait.asked, wait.deadline, wait.opened_at, wait.ended_at,
        wait.event_id
    FROM kept
    JOIN pgjobs_wait AS wait
        ON wait.job_id = kept.job_id AND wait.life = kept.life AND wait.name = kept.name;
    RETURN QUERY SELECT unnest(retried);
END
$$;
