-- Do what the retry of these jobs means for others. The retried jobs wait again for
-- those of their predecessors that have not ended. Jobs that were cancelled because of
-- them wait again, and so do those that were cancelled because of these. A revived job
-- takes its unique key again. If another job holds it, it stays cancelled. OFFSET 0 keeps
-- the planner from walking over all jobs, and from doing that for each link.
CREATE OR REPLACE FUNCTION pgjobs_revive(ids bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    WITH RECURSIVE lost (id, batch_id) AS (
        SELECT id, batch_id FROM pgjobs_job WHERE id = ANY (ids)
        UNION
        SELECT job.id, job.batch_id
        FROM lost
        CROSS JOIN LATERAL (
            -- The order makes the planner take the index that begins with the column.
            -- It would read all of another one, in which that comes second.
            (
                SELECT job_id FROM pgjobs_predecessor WHERE predecessor_id = lost.id
                ORDER BY is_open, job_id OFFSET 0
            )
            UNION ALL
            (
                SELECT job_id FROM pgjobs_predecessor WHERE batch_id = lost.batch_id
                ORDER BY is_open, job_id OFFSET 0
            )
        ) AS link
        CROSS JOIN LATERAL (
            SELECT id, batch_id FROM pgjobs_job
            WHERE id = link.job_id AND status = 'CANCELLED'
                AND blocked_by_id = lost.id
            OFFSET 0
        ) AS job
    ),
    cancelled AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ARRAY(SELECT id FROM lost)) AND status = 'CANCELLED'
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM cancelled)) AS id
    ),
    -- The next admission looks again at what had ended for a job before, but for what
    -- was pruned since: an admission has seen how that ended.
    opened AS (
        UPDATE pgjobs_predecessor AS link SET is_open = true
        WHERE job_id = ANY (ARRAY(SELECT id FROM allowed))
            AND (
                EXISTS (
                    SELECT FROM pgjobs_job WHERE id = link.predecessor_id OFFSET 0
                )
                OR EXISTS (
                    SELECT FROM pgjobs_batch WHERE id = link.batch_id OFFSET 0
                )
            )
    ),
    linked AS (
        UPDATE pgjobs_predecessor AS link
        SET is_open = EXISTS (
                SELECT FROM pgjobs_job
                WHERE id = link.predecessor_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            ) OR EXISTS (
                SELECT FROM pgjobs_job
                WHERE batch_id = link.batch_id
                    AND (finished_at IS NULL OR id IN (SELECT id FROM allowed))
                OFFSET 0
            )
        WHERE job_id = ANY (ids)
        RETURNING job_id, is_open
    )
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = 'predecessor',
        finished_at = NULL,
        expires_at = NULL,
        reason = '',
        unique_until = CASE WHEN unique_until > clock_timestamp() THEN unique_until END
    WHERE id = ANY (
            ARRAY(
                SELECT id FROM allowed
                UNION ALL
                SELECT job_id FROM linked WHERE is_open
            )
        )
        AND status IN ('CANCELLED', 'READY');
END
$$;
