-- Insert an event and a job for each task that subscribes to it.
-- Producers that publish by SQL call the same function.
SELECT
    pgjobs_publish(
        %(name)s, %(payload)s::jsonb, %(aggregate_id)s, %(correlation_id)s,
        %(meta)s::jsonb
    ),
    statement_timestamp()
