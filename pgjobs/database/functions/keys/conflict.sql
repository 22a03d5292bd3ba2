-- Decide what becomes of a new job whose unique key another job holds, as
-- `models/unique.py` does. Return the id of the job that there is instead; NULL if
-- there is none (on_conflict = 'skip'); 0 if no job holds the key any more.
CREATE OR REPLACE FUNCTION pgjobs_conflict(job pgjobs_job, on_conflict text)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    holder pgjobs_job;
BEGIN
    IF job.unique_for = 'period' THEN
        UPDATE pgjobs_job SET unique_until = NULL  -- it is over
        WHERE unique_key = job.unique_key AND unique_for = 'period'
            AND pgjobs_holds_key(
                unique_for, unique_until, status, attempts, finished_at
            )
            AND unique_until <= clock_timestamp();
    END IF;
    IF on_conflict = 'replace' THEN
        UPDATE pgjobs_job AS held
        SET args = '[]',
            kwargs = job.kwargs,
            keys = nullif(
                coalesce(job.keys, '{}') - 'batch_id' || coalesce(
                    (
                        SELECT jsonb_object_agg(key, value)
                        FROM jsonb_each(held.keys)
                        WHERE key IN (
                            'after', 'after_batches', 'needs', 'batch_id',
                            'has_successors'
                        )
                    ),
                    '{}'
                ),
                '{}'
            ),
            dependencies = NULL,  -- a worker makes them
            run_after = job.run_after,
            expires_at = job.expires_at,
            status = CASE
                WHEN job.run_after > statement_timestamp() THEN 'SCHEDULED'
                ELSE 'READY'
            END,
            waiting_for = NULL,
            blocked_by_id = NULL
        WHERE held.unique_key = job.unique_key
            AND held.unique_for = job.unique_for
            AND pgjobs_holds_key(
                held.unique_for, held.unique_until, held.status, held.attempts,
                held.finished_at
            )
            AND held.status IN ('READY', 'SCHEDULED', 'WAITING')
            AND held.attempts = 0
        RETURNING * INTO holder;
        IF FOUND THEN
            DELETE FROM pgjobs_predecessor
            WHERE job_id = holder.id AND needs = 'dependency';
            PERFORM pg_notify('pgjobs', holder.queue_name);
            RETURN holder.id;
        END IF;
    END IF;
    SELECT * INTO holder FROM pgjobs_job
    WHERE unique_key = job.unique_key AND unique_for = job.unique_for
        AND pgjobs_holds_key(
            unique_for, unique_until, status, attempts, finished_at
        );
    IF NOT FOUND THEN
        RETURN 0;
    ELSIF on_conflict = 'raise' THEN
        RAISE EXCEPTION 'Job % (%) already holds the unique key ''%''.',
            holder.id, holder.task, holder.unique_key
            USING ERRCODE = '23505', COLUMN = 'unique_key';
    ELSIF on_conflict = 'replace' AND holder.attempts = 0
        AND holder.finished_at IS NULL
    THEN
        RETURN 0;  -- the holder came after the UPDATE had looked
    END IF;
    RETURN CASE WHEN on_conflict <> 'skip' THEN holder.id END;
END
$$;
