-- Add what a worker has counted to the figures of this minute and of this hour. In the
-- order of the key, so that no two workers wait for each other.
WITH new AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (
        queue_name text, task text, seconds double precision, successful integer,
        failed integer, cancelled integer, retried integer, run_times integer[],
        wait_times integer[]
    )
)
INSERT INTO pgjobs_figure AS figure (
    span, start, queue_name, task, seconds, successful, failed, cancelled, retried,
    run_times, wait_times
)
SELECT span.minutes, date_trunc(span.name, now(), 'UTC'), new.*
FROM new CROSS JOIN (VALUES (1, 'minute'), (60, 'hour')) AS span (minutes, name)
ORDER BY span.minutes, new.queue_name, new.task
ON CONFLICT (span, start, queue_name, task) DO UPDATE SET
    seconds = figure.seconds + excluded.seconds,
    successful = figure.successful + excluded.successful,
    failed = figure.failed + excluded.failed,
    cancelled = figure.cancelled + excluded.cancelled,
    retried = figure.retried + excluded.retried,
    run_times = ARRAY(
        SELECT coalesce(old, 0) + coalesce(added, 0)
        FROM unnest(figure.run_times, excluded.run_times)
            WITH ORDINALITY AS bucket (old, added, position)
        ORDER BY position
    ),
    wait_times = ARRAY(
        SELECT coalesce(old, 0) + coalesce(added, 0)
        FROM unnest(figure.wait_times, excluded.wait_times)
            WITH ORDINALITY AS bucket (old, added, position)
        ORDER BY position
    )
RETURNING id
