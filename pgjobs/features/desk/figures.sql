-- The figures of a time that ends now, summed for each span of it, and for each task. One
-- look at the rows serves both. Each bucket of release 0.9.0 is a sum of its own: to unnest
-- these arrays and to put them together again takes ten times as long. Those of now are few
-- pairs of a bucket and a number.
WITH picked AS MATERIALIZED (
    SELECT * FROM pgjobs_figure
    WHERE span = %(span)s
        AND start > now() - make_interval(secs => %(seconds)s)
        AND start <= now()
        AND (%(task)s::text IS NULL OR task = %(task)s)
        AND (%(queue_name)s::text IS NULL OR queue_name = %(queue_name)s)
),
sums AS MATERIALIZED (
    SELECT
        grouping(start) = 1 AS is_task,
        coalesce(task, extract(epoch FROM start)::bigint::text) AS key,
        sum(successful) AS successful, sum(failed) AS failed,
        sum(cancelled) AS cancelled, sum(retried), sum(seconds),
        ARRAY[$run_times], ARRAY[$wait_times]
    FROM picked
    GROUP BY GROUPING SETS ((start), (task))
    ORDER BY is_task, sum(successful) + sum(failed) + sum(cancelled) DESC, key
    LIMIT %(most)s
),
counted AS MATERIALIZED (
    SELECT
        grouping(start) = 1 AS is_task,
        coalesce(task, extract(epoch FROM start)::bigint::text) AS key,
        kind, bucket, sum(number) AS number
    FROM picked
    CROSS JOIN LATERAL (
        SELECT 'run', run_buckets[at][1], run_buckets[at][2]
        FROM generate_series(1, array_length(run_buckets, 1)) AS at
        UNION ALL
        SELECT 'wait', wait_buckets[at][1], wait_buckets[at][2]
        FROM generate_series(1, array_length(wait_buckets, 1)) AS at
    ) AS pair (kind, bucket, number)
    WHERE number > 0 AND bucket IS NOT NULL
    GROUP BY GROUPING SETS ((start, kind, bucket), (task, kind, bucket))
),
buckets AS MATERIALIZED (
    SELECT is_task, key,
        jsonb_object_agg(bucket, number) FILTER (WHERE kind = 'run') AS run,
        jsonb_object_agg(bucket, number) FILTER (WHERE kind = 'wait') AS wait
    FROM counted
    GROUP BY is_task, key
)
SELECT sums.*, run::text, wait::text
FROM sums LEFT JOIN buckets USING (is_task, key)
ORDER BY is_task, successful + failed + cancelled DESC, key
