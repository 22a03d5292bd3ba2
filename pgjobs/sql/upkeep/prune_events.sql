-- Look at some events that were published long ago, from a position on, and delete those
-- that nothing needs, with their deliveries. Jobs that delivered them stay as long as any
-- other. Dead letters keep their event, and so does a job that may yet run and ask for it.
-- Say how many went, whether more may follow, and behind which event: NULL if there was
-- none.
-- WITH TIES: see prune.sql.
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
old AS MATERIALIZED (
    SELECT event.id FROM pgjobs_event AS event
    WHERE event.id = ANY (ARRAY(SELECT id FROM seen))
        AND NOT EXISTS (
            SELECT FROM pgjobs_delivery AS delivery
            WHERE delivery.event_id = event.id AND EXISTS (
                SELECT FROM pgjobs_job
                WHERE id = delivery.job_id
                    AND status NOT IN ('SUCCESSFUL', 'CANCELLED')
                OFFSET 0
            )
            OFFSET 0  -- asked for each old event: no join with all jobs
        )
        AND NOT /*referred*/ false  -- by other tables: see queue/references.py
    FOR UPDATE SKIP LOCKED
),
pruned AS (
    DELETE FROM pgjobs_event WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
),
last AS (
    SELECT published_at, id FROM seen ORDER BY published_at DESC, id DESC LIMIT 1
)
SELECT (SELECT count(*) FROM pruned), looked.number = %(limit)s, last.published_at,
    last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
