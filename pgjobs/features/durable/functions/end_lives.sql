-- Fail a batch of the jobs whose deadline is over. A job that runs is left to its worker.
-- Before, let those lives begin whose predecessors have ended. Return the failed jobs.
CREATE OR REPLACE FUNCTION pgjobs_end_lives(most integer, only_jobs bigint[], skipped bigint[])
RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    UPDATE pgjobs_job SET keys = keys || pgjobs_ends_at(keys, clock_timestamp())
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE keys ? 'deadline' AND finished_at IS NULL
            AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
                AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
            AND keys -> 'ends_at' IS NULL AND jsonb_typeof(keys -> 'deadline') = 'number'
            AND NOT id = ANY (skipped)
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    ));
    RETURN QUERY
    UPDATE pgjobs_job
    SET status = 'FAILED',
        finished_at = clock_timestamp(),
        reason = 'The deadline of the job is over.',
        waiting_for = NULL,
        blocked_by_id = NULL
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job
        WHERE keys ? 'deadline' AND finished_at IS NULL
            AND (keys ? 'ends_at' OR status <> 'SCHEDULED'
                AND coalesce(waiting_for, '') NOT IN ('predecessor', 'dependency'))
            AND keys -> 'ends_at' <= to_jsonb(extract(epoch FROM statement_timestamp()))
            AND status <> 'RUNNING'
            AND (only_jobs IS NULL OR id = ANY (only_jobs)) AND NOT id = ANY (skipped)
        ORDER BY keys -> 'ends_at'
        LIMIT most
        FOR NO KEY UPDATE SKIP LOCKED
    ))
    RETURNING id;
END
$$;
