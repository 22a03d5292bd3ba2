-- Insert an event and a job for each task that subscribes to it: see the function, which
-- publishers in SQL call as well.
SELECT
    pgjobs_publish(
        %(name)s, %(payload)s::jsonb, %(aggregate_id)s, %(correlation_id)s
    ),
    statement_timestamp()
