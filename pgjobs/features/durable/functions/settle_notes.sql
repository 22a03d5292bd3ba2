-- Put notes of jobs off while a wait of theirs is open: until its deadline, or for a moment
-- if another transaction held the row of a job that was to go on. So each open wait has
-- a note, also while its job runs, and whatever ends the job then leaves its waits to
-- this. Delete the other notes, and the waits of lives that have ended.
CREATE OR REPLACE FUNCTION pgjobs_settle_notes(
    notes bigint[], ready bigint[], now timestamptz
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ended bigint[];
BEGIN
    -- A job that was to be woken and still waits is held by another transaction. (That of
    -- a noted event has no note of its own for this.)
    INSERT INTO pgjobs_waitnote (job_id, due_at)
    SELECT id, now + interval '1 second' FROM pgjobs_job
    WHERE id = ANY (ready) AND status || '' = 'WAITING'
        AND waiting_for IN ('answer', 'event', 'jobs');
    WITH examined AS MATERIALIZED (
        SELECT note.id, note.job_id, its_wait.*
        FROM pgjobs_waitnote AS note
        LEFT JOIN LATERAL (
            SELECT min(wait.deadline) AS deadline,
                bool_or(job.status || '' = 'WAITING' AND job.id <> ALL (ready)) AS is_asking
            FROM pgjobs_wait AS wait
            JOIN pgjobs_job AS job ON job.id = wait.job_id AND job.life = wait.life
            WHERE wait.job_id = note.job_id AND wait.ended_at IS NULL
                AND job.finished_at IS NULL
        ) AS its_wait ON true
        WHERE note.id = ANY (notes) AND note.job_id IS NOT NULL
    ),
    -- One note is enough for a job.
    kept AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) id, job_id, deadline, is_asking FROM examined
        WHERE deadline IS NOT NULL ORDER BY job_id, id
    ),
    put_off AS (
        UPDATE pgjobs_waitnote AS note
        SET after = 0, due_at = greatest(
            kept.deadline,
            now + CASE WHEN is_asking THEN interval '1 second' ELSE interval '1 hour' END
        )
        FROM kept WHERE note.id = kept.id
    ),
    deleted AS (
        DELETE FROM pgjobs_waitnote
        WHERE id = ANY (ARRAY(SELECT id FROM examined WHERE id NOT IN (SELECT id FROM kept)))
    )
    SELECT array_agg(job_id) INTO ended FROM examined WHERE deadline IS NULL;
    IF ended IS NOT NULL THEN
        PERFORM pgjobs_settle_ended(ended);
    END IF;
END
$$;
