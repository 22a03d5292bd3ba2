-- Delete the rows that belong to deleted jobs, and store how those of batches had
-- ended. Five foreign keys with ON DELETE CASCADE would do the same, but with five
-- statements for each job. That was three quarters of what pruning cost. A row that is
-- inserted meanwhile is not overlooked: the statements that insert one lock its job,
-- and each statement here sees what was committed before it. A role that may delete
-- only jobs leaves the rest to a worker, and so does a transaction that sees no new
-- rows (REPEATABLE READ): see sql/upkeep/prune_left_rows.sql.
CREATE OR REPLACE FUNCTION pgjobs_jobs_deleted() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    ids CONSTANT bigint[] := ARRAY(SELECT id FROM deleted);
BEGIN
    IF ids = '{}' THEN
        RETURN NULL;
    END IF;
    IF has_table_privilege('pgjobs_attempt', 'DELETE') THEN
        DELETE FROM pgjobs_attempt WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_progress', 'DELETE') THEN
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_step', 'DELETE') THEN
        DELETE FROM pgjobs_step WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_wait', 'DELETE') THEN
        DELETE FROM pgjobs_wait WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_answer', 'DELETE') THEN
        DELETE FROM pgjobs_answer WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_tick', 'DELETE') THEN
        DELETE FROM pgjobs_tick WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_delivery', 'DELETE') THEN
        DELETE FROM pgjobs_delivery WHERE job_id = ANY (ids);
    END IF;
    IF has_table_privilege('pgjobs_batch', 'UPDATE')
        AND current_setting('pgjobs.moves', true) IS DISTINCT FROM 'on'
        AND EXISTS (
            SELECT FROM deleted WHERE batch_id IS NOT NULL AND status <> 'SUCCESSFUL'
        )
    THEN
        -- What is left of a batch must not end better than all of it.
        WITH lost AS MATERIALIZED (
            SELECT batch_id, bool_or(status = 'FAILED') AS any_failed FROM deleted
            WHERE batch_id IS NOT NULL AND status <> 'SUCCESSFUL'
            GROUP BY batch_id
        ),
        held AS MATERIALIZED (
            SELECT id, outcome_of_deleted FROM pgjobs_batch
            WHERE id = ANY (ARRAY(SELECT batch_id FROM lost))
            ORDER BY id
            FOR NO KEY UPDATE
        )
        UPDATE pgjobs_batch AS batch
        SET outcome_of_deleted =
            CASE WHEN any_failed THEN 'FAILED' ELSE 'CANCELLED' END
        FROM held JOIN lost ON lost.batch_id = held.id
        WHERE batch.id = held.id AND batch.id = ANY (ARRAY(SELECT id FROM held))
            AND (
                held.outcome_of_deleted = ''
                OR held.outcome_of_deleted = 'CANCELLED' AND any_failed
            );
    END IF;
    RETURN NULL;
END
$$;
