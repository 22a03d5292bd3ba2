-- With `dependencies`, which an INSERT by SQL lacks, the job may have to wait for them.
recorded AS (
    UPDATE pgjobs_job AS job
    SET status = held.next_status,
        failures = least(failures::bigint + held.failed, job.attempts),
        run_after = CASE
            WHEN held.next_status = 'SCHEDULED'
                THEN clock_timestamp() + make_interval(secs => held.delay)
            ELSE run_after
        END,
        finished_at = CASE
            WHEN held.next_status IN ('FAILED', 'CANCELLED') THEN clock_timestamp()
        END,
        reason = CASE
            WHEN job.cancel_requested_at IS NULL THEN held.reason ELSE job.reason
        END,
        dependencies = coalesce(held.dependencies, job.dependencies),
        error_group = CASE
            WHEN held.next_status = 'FAILED' THEN held.error_group
        END,
        worker_id = NULL
    FROM held
    WHERE job.id = held.id
    RETURNING job.id, job.lease_token, job.status
)
SELECT lease_token, status FROM recorded
