-- Add what a worker has counted to the figures of this minute and of this hour. In the
-- order of the key, so that no two workers wait for each other. Of the times only pairs of
-- a bucket and a number are kept. They are appended, and added up once there are many.
WITH new AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb) AS given (
        queue_name text, task text, seconds double precision, successful integer,
        failed integer, cancelled integer, retried integer, run_buckets integer[],
        wait_buckets integer[]
    )
)
INSERT INTO pgjobs_figure AS figure (
    span, start, queue_name, task, seconds, successful, failed, cancelled, retried,
    run_buckets, wait_buckets
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
    run_buckets = CASE
        -- None yet, or no pairs, which only SQL can have stored.
        WHEN (array_ndims(figure.run_buckets) = 2
            AND array_length(figure.run_buckets, 2) = 2) IS NOT TRUE
            THEN excluded.run_buckets
        WHEN array_length(figure.run_buckets, 1) < %(most_pairs)s
            THEN figure.run_buckets || excluded.run_buckets
        ELSE (
            SELECT array_agg(ARRAY[bucket, number] ORDER BY bucket)
            FROM (
                SELECT pairs[at][1], least(sum(pairs[at][2]), 2147483647)::integer
                FROM (SELECT figure.run_buckets || excluded.run_buckets)
                        AS joined (pairs),
                    generate_series(1, array_length(pairs, 1)) AS at
                GROUP BY pairs[at][1]
            ) AS sums (bucket, number)
        )
    END,
    wait_buckets = CASE
        -- None yet, or no pairs, which only SQL can have stored.
        WHEN (array_ndims(figure.wait_buckets) = 2
            AND array_length(figure.wait_buckets, 2) = 2) IS NOT TRUE
            THEN excluded.wait_buckets
        WHEN array_length(figure.wait_buckets, 1) < %(most_pairs)s
            THEN figure.wait_buckets || excluded.wait_buckets
        ELSE (
            SELECT array_agg(ARRAY[bucket, number] ORDER BY bucket)
            FROM (
                SELECT pairs[at][1], least(sum(pairs[at][2]), 2147483647)::integer
                FROM (SELECT figure.wait_buckets || excluded.wait_buckets)
                        AS joined (pairs),
                    generate_series(1, array_length(pairs, 1)) AS at
                GROUP BY pairs[at][1]
            ) AS sums (bucket, number)
        )
    END
RETURNING id
