-- Hand on what belongs to a job to the one as which it goes on: answers that it has not
-- taken, its delivery and its tick. What it has taken of the events that are still known
-- stands as of life 0 of the successor, which must not take it again. These rows keep no
-- event.
CREATE OR REPLACE FUNCTION pgjobs_hand_on(old pgjobs_job, successor bigint) RETURNS void
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE pgjobs_answer AS answer SET job_id = successor, life = 1
    WHERE job_id = old.id AND life = old.life
        AND NOT EXISTS (
            SELECT FROM pgjobs_wait AS wait
            WHERE wait.job_id = old.id AND wait.life = old.life
                AND ended_at IS NOT NULL
                AND coalesce(nullif(label, ''), wait.name) = answer.name
        )
        AND NOT EXISTS (
            SELECT FROM pgjobs_step AS step
            WHERE step.job_id = old.id AND step.life = old.life
                AND step.name = answer.name
        );
    INSERT INTO pgjobs_wait (
        job_id, life, name, kind, event, deadline, opened_at, ended_at, event_id
    )
    SELECT successor, 0, event_id::text, kind, event, deadline, opened_at, ended_at,
        event_id
    FROM pgjobs_wait
    WHERE job_id = old.id AND life IN (0, old.life) AND EXISTS (
        SELECT FROM pgjobs_awaitedevent AS known
        WHERE known.event_id = pgjobs_wait.event_id
        OFFSET 0  -- asked for each
    );
    DELETE FROM pgjobs_wait
    WHERE job_id = old.id AND life IN (0, old.life)
        AND (life = 0 OR ended_at IS NULL);
    UPDATE pgjobs_delivery SET job_id = successor WHERE job_id = old.id;
    UPDATE pgjobs_tick SET job_id = successor WHERE job_id = old.id;
END
$$;
