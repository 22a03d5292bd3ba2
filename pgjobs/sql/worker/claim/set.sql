-- The statement goes on with "last_attempted_at".
SET status = 'RUNNING',
    attempts = least(attempts, 2147483646) + 1,
    lease_token = CASE
        WHEN lease_token < nextval('pgjobs_lease_token')
            THEN currval('pgjobs_lease_token')
        ELSE pgjobs_token_beyond(lease_token)
    END,
    worker_id = %(worker_id)s,
    started_at = coalesce(started_at, clock_timestamp()),
