-- As tables/jobs.sql had it, without the limit of 32 bits: the key of a session lock has
-- 64. And with the columns of later releases.
ALTER TABLE pgjobs_worker DROP CONSTRAINT pgjobs_worker_values;
ALTER TABLE pgjobs_worker ADD CONSTRAINT pgjobs_worker_columns CHECK (
    id BETWEEN 1 AND 9223372036854775806
    AND least(
        started_at, heartbeat_at, beating_since, lease_until, unlocked_at, leads_until
    ) >= '1970-01-01 00:00+00'
    AND greatest(
        started_at, heartbeat_at, beating_since, lease_until, unlocked_at, leads_until
    ) < '9999-01-01 00:00+00'
    AND lease_until - heartbeat_at BETWEEN '-876000 hours' AND '876000 hours'
    AND heartbeat_interval BETWEEN 0 AND 3153600000
);
