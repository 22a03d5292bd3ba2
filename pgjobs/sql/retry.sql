-- Operator's retry: finished jobs return to the queue with a new life.
-- The lease token stays: it is never used twice. Who retries a job wants it to run,
-- however late.
-- Left alone are those whose unique key another job holds, and of several finished ones
-- with the same key all but the newest. In the order of their ids, in which those of a
-- lock then stand in line.
WITH finished AS MATERIALIZED (
    SELECT id, unique_for,
        CASE
            WHEN unique_for <> 'period' OR unique_until > clock_timestamp()
                THEN unique_key
        END AS wanted_key
    FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
        AND status IN ('SUCCESSFUL', 'FAILED', 'CANCELLED')
    ORDER BY id
    FOR NO KEY UPDATE
),
ranked AS (
    SELECT *, row_number() OVER (
        PARTITION BY wanted_key, unique_for ORDER BY id DESC
    ) AS place
    FROM finished
),
allowed AS MATERIALIZED (
    SELECT id FROM ranked
    WHERE wanted_key IS NULL
        OR place = 1 AND NOT EXISTS (
            SELECT FROM pgjobs_job AS other
            WHERE other.unique_key = wanted_key
                AND other.unique_for = ranked.unique_for
                AND pgjobs_holds_key(
                    other.unique_for, other.unique_until, other.status,
                    other.attempts, other.finished_at
                )
                AND other.id <> ranked.id
        )
    ORDER BY id
),
retried AS (
    UPDATE pgjobs_job AS job
    SET status = CASE
            WHEN run_after > clock_timestamp() THEN 'SCHEDULED' ELSE 'READY'
        END,
        life = life + 1,
        attempts = 0, failures = 0, crashes = 0,
        started_at = NULL, last_attempted_at = NULL, finished_at = NULL,
        expires_at = NULL, cancel_requested_at = NULL, return_value = NULL, reason = '',
        blocked_by_id = NULL,
        -- An end that no admission has seen: the trigger overlooks it otherwise.
        line = CASE line WHEN 'recorded' THEN 'left' ELSE line END,
        unique_until = CASE
            WHEN unique_until > clock_timestamp() THEN unique_until
        END
    FROM allowed
    WHERE job.id = allowed.id
    RETURNING job.id,
        job.keys IS NOT NULL
            -- One that ended before an admission saw who waits for it has no mark.
            OR EXISTS (SELECT FROM pgjobs_predecessor WHERE predecessor_id = job.id)
            AS may_be_linked
),
forgotten AS (
    DELETE FROM pgjobs_progress USING retried WHERE job_id = retried.id
)
SELECT id, false, may_be_linked FROM retried
