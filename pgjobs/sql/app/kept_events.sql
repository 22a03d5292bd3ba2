-- How many of a part of the old events, behind a position, are kept for jobs that deliver
-- them: see prune_events.sql. Say whether more may follow, and behind which event.
WITH near AS MATERIALIZED (
    SELECT id, published_at FROM pgjobs_event
    WHERE published_at < statement_timestamp() - make_interval(secs => %(age)s)
        AND published_at >= %(after_time)s
        AND (published_at, id) > (%(after_time)s, %(after_id)s)
    ORDER BY published_at
    FETCH FIRST (%(limit)s) ROWS WITH TIES
),
seen AS MATERIALIZED (
    SELECT id, published_at FROM near ORDER BY published_at, id LIMIT %(limit)s
),
last AS (
    SELECT published_at, id FROM seen ORDER BY published_at DESC, id DESC LIMIT 1
)
SELECT
    (
        SELECT count(*) FROM seen
        WHERE EXISTS (
            SELECT FROM pgjobs_delivery AS delivery
            WHERE delivery.event_id = seen.id AND EXISTS (
                SELECT FROM pgjobs_job
                WHERE id = delivery.job_id
                    AND status NOT IN ('SUCCESSFUL', 'CANCELLED')
                OFFSET 0
            )
            OFFSET 0
        )
    ),
    looked.number = %(limit)s, last.published_at, last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
