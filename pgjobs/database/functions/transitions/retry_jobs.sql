-- Put finished jobs back in the queue, each with a new life. Jobs that were cancelled
-- because of them wait again. Return the jobs that this changed.
--
-- The lease token stays, because it is never used twice. `expires_at` goes, because an
-- operator who retries a job wants it to run, however late. A job is skipped if it goes
-- on as another job, or if another job holds its unique key. Of several jobs with the
-- same key only the newest is retried. Jobs are put back in the order of their ids, in
-- which the jobs of a lock stand in line.
--
-- Arrays and OFFSET 0 keep the planner from walking over all jobs, links and rows of
-- progress. It expects a thousand rows of a function, and plans a join for them. The
-- settings keep it from reading all links for each job: where one job has most
-- successors, it expects as many of every job.
CREATE OR REPLACE FUNCTION pgjobs_retry_jobs(ids bigint[]) RETURNS SETOF bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $$
DECLARE
    retried bigint[];
    linked bigint[];
BEGIN
    WITH finished AS MATERIALIZED (
        SELECT id
        FROM pgjobs_job
        WHERE id = ANY (ids)
            AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
            AND life < 1000000000  -- the most that a row may have
            AND NOT coalesce(keys ? 'continued_as', false)
        ORDER BY id
        FOR NO KEY UPDATE
    ),
    allowed AS MATERIALIZED (
        SELECT id FROM pgjobs_retake_keys(ARRAY(SELECT id FROM finished)) AS id
    ),
    changed AS (
        UPDATE pgjobs_job AS job
        SET (status, run_after) = (
                SELECT CASE
                        WHEN due_at > clock_timestamp() THEN 'SCHEDULED' ELSE 'READY'
                    END,
                    due_at
                FROM (
                    -- It waits from now on. The sleep of a task belongs to the old life.
                    SELECT CASE
                        WHEN (job.run_after > clock_timestamp()) IS TRUE
                            AND NOT pgjobs_is_asleep(job.id, job.life, job.run_after)
                            THEN job.run_after
                        ELSE clock_timestamp()
                    END
                ) AS due (due_at)
            ),
            life = life + 1,
            attempts = 0, failures = 0, crashes = 0,
            started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
            expires_at = NULL, cancel_requested_at = NULL, return_value = NULL,
            reason = '', blocked_by_id = NULL, error_group = NULL,
            -- The trigger overlooks a job whose end is recorded and not yet seen.
            line = CASE line WHEN 'recorded' THEN 'left' ELSE line END,
            unique_until = CASE
                WHEN unique_until > clock_timestamp() THEN unique_until
            END
        WHERE job.id = ANY (ARRAY(SELECT id FROM allowed))
        RETURNING job.id,
            job.keys IS NOT NULL
                -- A job that ended before an admission saw its successors has no mark.
                OR EXISTS (
                    SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id
                    ORDER BY is_open, job_id OFFSET 0
                ) AS may_be_linked
    ),
    forgotten AS (
        DELETE FROM pgjobs_progress WHERE job_id = ANY (ARRAY(SELECT id FROM changed))
    )
    SELECT array_agg(id), array_agg(id) FILTER (WHERE may_be_linked)
    INTO retried, linked
    FROM changed;
    IF linked IS NOT NULL THEN
        PERFORM pgjobs_drop_waited_links(linked);
        PERFORM pgjobs_revive(linked);
        PERFORM pgjobs_renew_results(linked);
    END IF;
    RETURN QUERY SELECT unnest(retried);
END
$$;
