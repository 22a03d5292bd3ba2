-- From when a job with its next status can run, and when it ended.
CASE
    WHEN held.next_status = 'SCHEDULED'
        THEN clock_timestamp() + make_interval(secs => held.delay)
    -- It waits from now on.
    WHEN held.next_status = 'READY' THEN clock_timestamp()
    ELSE job.run_after
END,
CASE
    WHEN held.next_status IN ('FAILED', 'CANCELLED')
        THEN clock_timestamp()
END,
