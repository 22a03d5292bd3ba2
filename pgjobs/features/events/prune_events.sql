-- Look at some events that were published long ago, from a position on, and delete those
-- that nothing needs, with their deliveries. Jobs that delivered them stay as long as any
-- other. Dead letters keep their event, and so does a job that may yet run and ask for it,
-- that waits for it, or that has taken it.
-- Say how many went, whether more may follow, and behind which event: NULL if there was
-- none.
\ir prune/old_events.sql
old AS MATERIALIZED (
    SELECT event.id FROM pgjobs_event AS event
    WHERE event.id = ANY (ARRAY(SELECT id FROM seen))
        AND NOT
        \ir prune/has_deliveries.sql
        AND NOT pgjobs_is_waited_for(event.id)
        AND NOT /*referred*/ false  -- by other tables: see queue/references.py
    FOR UPDATE SKIP LOCKED
),
pruned AS (
    DELETE FROM pgjobs_event WHERE id = ANY (ARRAY(SELECT id FROM old))
    RETURNING id
)
SELECT (SELECT count(*) FROM pruned), looked.number = %(limit)s, last.published_at,
    last.id
FROM (SELECT count(*) AS number FROM seen) AS looked
LEFT JOIN last ON true
