-- Tasks of which enough jobs ended in the last hour and a large share failed. The sums of
-- this hour and the last one name a few that may be such: of those the minutes are read.
WITH suspect AS MATERIALIZED (
    SELECT task FROM pgjobs_figure
    WHERE span = 60 AND start > clock_timestamp() - interval '2 hours' AND failed > 0
        AND task <> ''
    GROUP BY task
    HAVING sum(failed) >= %(share)s * %(least)s
    ORDER BY sum(failed) DESC
    LIMIT %(suspects)s
),
place AS MATERIALIZED (
    SELECT DISTINCT queue_name, task FROM pgjobs_figure
    WHERE span = 60 AND start > clock_timestamp() - interval '2 hours'
        AND task = ANY (ARRAY(SELECT task FROM suspect))
    LIMIT %(places)s
)
SELECT place.task, sum(ended)::bigint, sum(failed)::bigint
FROM place
CROSS JOIN generate_series(
    date_trunc('minute', clock_timestamp()) - interval '59 minutes',
    date_trunc('minute', clock_timestamp()),
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
