-- The figures of a time that ends now, summed for each span of it, and for each task. One
-- look at the rows serves both. Each bucket is a sum of its own: to unnest the arrays and
-- to put them together again takes ten times as long.
SELECT
    grouping(start) = 1 AS is_task,
    coalesce(task, extract(epoch FROM start)::bigint::text) AS key,
    sum(successful), sum(failed), sum(cancelled), sum(retried), sum(seconds),
    ARRAY[$run_times], ARRAY[$wait_times]
FROM pgjobs_figure
WHERE span = %(span)s
    AND start > now() - make_interval(secs => %(seconds)s)
    AND start <= now()
    AND (%(task)s::text IS NULL OR task = %(task)s)
    AND (%(queue_name)s::text IS NULL OR queue_name = %(queue_name)s)
GROUP BY GROUPING SETS ((start), (task))
ORDER BY is_task, sum(successful) + sum(failed) + sum(cancelled) DESC, key
LIMIT %(most)s
