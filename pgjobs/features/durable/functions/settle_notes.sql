-- Delete notes of jobs that do not wait any more. The others stay: until the deadline of
-- the wait, or for a moment if another transaction held the job's row.
CREATE OR REPLACE FUNCTION pgjobs_settle_notes(
    notes bigint[], ready bigint[], now timestamptz
) RETURNS void LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    -- A job that was to be woken and still waits is held by another transaction. (That of
    -- a noted event has no note of its own for this.)
    INSERT INTO pgjobs_waitnote (job_id, due_at)
    SELECT id, now + interval '1 second' FROM pgjobs_job
    WHERE id = ANY (ready) AND status || '' = 'WAITING'
        AND waiting_for IN ('answer', 'event', 'jobs');
    WITH examined AS MATERIALIZED (
        SELECT note.id, note.job_id, (
            SELECT min(wait.deadline) FROM pgjobs_wait AS wait
            JOIN pgjobs_job AS job ON job.id = wait.job_id AND job.life = wait.life
            WHERE wait.job_id = note.job_id AND wait.ended_at IS NULL
                AND job.status || '' = 'WAITING' AND job.id <> ALL (ready)
        ) AS deadline
        FROM pgjobs_waitnote AS note
        WHERE note.id = ANY (notes) AND note.job_id IS NOT NULL
    ),
    -- One note is enough for a job.
    kept AS MATERIALIZED (
        SELECT DISTINCT ON (job_id) id, deadline FROM examined
        WHERE deadline IS NOT NULL ORDER BY job_id, id
    ),
    put_off AS (
        UPDATE pgjobs_waitnote AS note
        SET due_at = greatest(kept.deadline, now + interval '1 second')
        FROM kept WHERE note.id = kept.id
    )
    DELETE FROM pgjobs_waitnote
    WHERE id = ANY (ARRAY(SELECT id FROM examined WHERE id NOT IN (SELECT id FROM kept)));
END
$$;
