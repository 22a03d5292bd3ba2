-- Tasks of which enough jobs ended in the last hour and a large share failed. The latest
-- failed jobs name a few that may be such: of those the figures of the minutes are read,
-- of all queues in which they ran.
WITH suspect AS MATERIALIZED (
    SELECT task FROM (
        SELECT task FROM pgjobs_job
        WHERE status = 'FAILED' AND finished_at IS NOT NULL
            AND finished_at > statement_timestamp() - interval '1 hour'
        ORDER BY finished_at DESC LIMIT %(latest)s
    ) AS failed
    GROUP BY task
    HAVING count(*) >= %(share)s * %(least)s
    ORDER BY count(*) DESC
    LIMIT %(suspects)s
),
place AS MATERIALIZED (
    SELECT DISTINCT queue_name, task FROM pgjobs_figure
    WHERE span = 60
        AND start >= date_trunc('hour', statement_timestamp() - interval '1 hour')
        AND start <= statement_timestamp()
        AND task = ANY (ARRAY(SELECT task FROM suspect))
    LIMIT %(places)s
)
SELECT place.task, sum(ended)::bigint, sum(failed)::bigint
FROM place
CROSS JOIN generate_series(
    date_trunc('minute', statement_timestamp()) - interval '59 minutes',
    date_trunc('minute', statement_timestamp()),
    interval '1 minute'
) AS minute (start)
CROSS JOIN LATERAL (
    SELECT successful + failed + cancelled AS ended, failed FROM pgjobs_figure
    WHERE span = 1 AND start = minute.start AND queue_name = place.queue_name
        AND task = place.task
    OFFSET 0
) AS figure
GROUP BY place.task
HAVING sum(ended) >= %(least)s AND sum(failed) >= %(share)s * sum(ended)
ORDER BY sum(failed) DESC, place.task
LIMIT %(most)s
