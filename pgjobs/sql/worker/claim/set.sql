-- The statement goes on with "last_attempted_at".
SET status = 'RUNNING',
    attempts = least(attempts, 2147483646) + 1,
    lease_token = nextval('pgjobs_lease_token'),
    worker_id = %(worker_id)s,
    started_at = coalesce(started_at, clock_timestamp()),
