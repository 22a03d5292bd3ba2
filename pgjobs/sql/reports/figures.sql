-- The figures of a time that ends now, summed by task or by the start of each span.
WITH chosen AS MATERIALIZED (
    SELECT *,
        CASE
            WHEN %(by_task)s THEN task
            ELSE extract(epoch FROM start)::bigint::text
        END AS key
    FROM pgjobs_figure
    WHERE span = %(span)s
        AND start > now() - make_interval(secs => %(seconds)s)
        AND start <= now()
        AND (%(task)s::text IS NULL OR task = %(task)s)
),
bucket AS (
    SELECT key, position, coalesce(sum(run), 0) AS run, coalesce(sum(wait), 0) AS wait
    FROM chosen CROSS JOIN unnest(run_times, wait_times)
        WITH ORDINALITY AS each (run, wait, position)
    GROUP BY key, position
),
times AS (
    SELECT key, array_agg(run::bigint ORDER BY position) AS run_times,
        array_agg(wait::bigint ORDER BY position) AS wait_times
    FROM bucket GROUP BY key
)
SELECT key, sum(successful), sum(failed), sum(cancelled), sum(retried), sum(seconds),
    times.run_times, times.wait_times
FROM chosen JOIN times USING (key)
GROUP BY key, times.run_times, times.wait_times
ORDER BY sum(successful) + sum(failed) + sum(cancelled) DESC, key
LIMIT %(most)s
