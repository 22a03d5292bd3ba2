-- With `dependencies`, which an INSERT by SQL lacks, the job may have to wait for them.
recorded AS (
    UPDATE pgjobs_job AS job
    SET worker_id = NULL,
        (
            status, failures, run_after, finished_at, reason, dependencies, error_group
        ) = (
            SELECT held.next_status,
                least(job.failures::bigint + held.failed, job.attempts),
                \ir times.sql
                CASE
                    WHEN job.cancel_requested_at IS NOT NULL THEN job.reason
                    WHEN held.next_status <> 'FAILED' AND put_back_since IS NOT NULL
                        THEN format(
                            '%%s Put back since %%s UTC.', left(held.reason, 900),
                            put_back_since
                        )
                    ELSE held.reason
                END,
                coalesce(held.dependencies, job.dependencies),
                CASE WHEN held.next_status = 'FAILED' THEN held.error_group END
            FROM held WHERE held.id = job.id
        )
    WHERE id = ANY (ARRAY(SELECT id FROM held))
    RETURNING job.id, job.lease_token, job.status, job.keys
),
-- A job whose body has not begun gives the place of its rate back.
returned AS MATERIALIZED (
    SELECT pgjobs_leave_note(NULL, jsonb_build_object(
        'rate_key', recorded.keys -> 'rate_key',
        'rate_interval', recorded.keys -> 'rate_interval',
        'rate_returned_at', extract(epoch FROM held.last_attempted_at)
    ))
    FROM recorded JOIN held ON held.id = recorded.id
    WHERE NOT held.has_begun AND held.has_rate
)
-- The count has PostgreSQL run what is a query of its own.
SELECT lease_token, status FROM recorded WHERE (SELECT count(*) FROM returned) >= 0
