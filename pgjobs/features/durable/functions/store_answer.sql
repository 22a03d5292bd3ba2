-- Store an answer, in the caller's transaction, and let the job go on. Return whether it
-- counts: not if the job has ended or is gone, if the wait has ended, or if there is an
-- answer of this name, or of another label of the wait, which takes one. A second answer
-- waits here for the first.
--
-- A job that is seen to wait becomes READY with the answer's commit, and needs no
-- look. Of any other job a note is left. (With an older snapshot to lock a row that has
-- changed would be an error.)
--
-- The job is locked before the wait, as by the job that takes the answer. While the wait
-- is locked, its time does not end. A job that goes on as another one meanwhile hands the
-- answer on, or lets that one have it: it locks its row against this. Where several answers
-- could end the wait, its rows are also written: at REPEATABLE READ one who comes second
-- does not see the answer of the first.
--
-- `of_life`: the only life of this job in which the answer counts, as a link says it.
-- NULL: any. It says nothing of the job as which this one goes on.
CREATE OR REPLACE FUNCTION pgjobs_store_answer(
    job bigint, answer_name text, answer jsonb, answered_by text, of_life integer
) RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET search_path FROM CURRENT
AS $$
DECLARE
    newest bigint := job;
    its_life integer;
    asked record;  -- of the rows of the wait: those of this name, and of its other labels
BEGIN
    LOOP
        SELECT life INTO its_life FROM pgjobs_job
        WHERE id = newest AND finished_at IS NULL
            AND (newest <> job OR life = coalesce(of_life, life))
        FOR KEY SHARE;
        EXIT WHEN FOUND;
        IF pgjobs_newest(job) IS NOT DISTINCT FROM newest THEN
            PERFORM pgjobs_check_answer(answer_name, answer, NULL);
            RETURN false;
        END IF;
        newest := pgjobs_newest(job);
    END LOOP;
    job := newest;
    SELECT count(*) > 0 AS has_asked,
        min(name) FILTER (WHERE label <> '' AND is_named AND ended_at IS NULL) AS several,
        coalesce(bool_or(is_named AND ended_at IS NOT NULL), false) AS is_over,
        (array_agg(wait.asked -> 'schema') FILTER (
            WHERE is_named AND kind = 'answer' AND ended_at IS NULL
        ))[1] AS schema
    INTO asked
    FROM (
        SELECT *, coalesce(nullif(label, ''), name) = answer_name AS is_named
        FROM pgjobs_wait
        WHERE job_id = job AND life = its_life AND (
            coalesce(nullif(label, ''), name) = answer_name OR name = (
                SELECT name FROM pgjobs_wait
                WHERE job_id = job AND life = its_life AND label = answer_name
                    AND ended_at IS NULL
                LIMIT 1
            )
        )
        ORDER BY id
        FOR NO KEY UPDATE
    ) AS wait;
    -- What Python has encrypted, for a job with the mark, only its worker can check.
    answer := pgjobs_check_answer(answer_name, answer, CASE
        WHEN jsonb_typeof(answer -> 'pgjobs_encrypted') = 'string' AND EXISTS (
            SELECT FROM pgjobs_job WHERE id = job AND keys ? 'encrypted'
        ) THEN NULL
        ELSE asked.schema
    END);
    IF asked.is_over THEN
        RETURN false;
    END IF;
    IF asked.several IS NOT NULL THEN
        UPDATE pgjobs_wait SET kind = kind
        WHERE job_id = job AND life = its_life AND name = asked.several
            AND kind = 'answer';
    END IF;
    INSERT INTO pgjobs_answer (job_id, life, name, value, answered_by)
    SELECT job, its_life, answer_name, answer, answered_by
    WHERE NOT EXISTS (
        SELECT FROM pgjobs_step
        WHERE job_id = job AND life = its_life AND name = answer_name
    ) AND (asked.several IS NULL OR NOT EXISTS (
        SELECT FROM pgjobs_wait AS wait
        JOIN pgjobs_answer AS other
            ON other.job_id = job AND other.life = its_life AND other.name = wait.label
        WHERE wait.job_id = job AND wait.life = its_life AND wait.name = asked.several
    ))
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT asked.has_asked OR current_setting('transaction_isolation') <> 'read committed'
        OR (SELECT woken FROM pgjobs_let_go_on(ARRAY[job])) = 0
    THEN
        PERFORM pgjobs_note_waiting(ARRAY[job]);
    END IF;
    RETURN true;
END
$$;
