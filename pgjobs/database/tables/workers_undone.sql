-- What tables/workers.sql has changed, as it was.
ALTER TABLE pgjobs_worker DROP CONSTRAINT pgjobs_worker_columns;
ALTER TABLE pgjobs_worker ADD CONSTRAINT pgjobs_worker_values CHECK (
    id BETWEEN 1 AND 2147483647
    AND least(started_at, heartbeat_at, beating_since, lease_until)
        >= '1970-01-01 00:00+00'
    AND greatest(started_at, heartbeat_at, beating_since, lease_until)
        < '9999-01-01 00:00+00'
    AND lease_until - heartbeat_at BETWEEN '-876000 hours' AND '876000 hours'
    AND heartbeat_interval BETWEEN 0 AND 3153600000
);
