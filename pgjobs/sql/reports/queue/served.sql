-- Whether a living worker claims from the queue `queue_name`, which is not paused. This
-- asks what pgjobs_is_served asks, but a view cannot call a function of ours, and the role
-- that watches may not.
EXISTS (
    SELECT FROM pgjobs_worker WHERE lease_until > clock_timestamp() AND wanted = '' AND
    \ir taken.sql
)
AND NOT
\ir paused.sql
