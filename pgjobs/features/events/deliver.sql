-- Deliver events to all subscribers, or to one task, that never had them.
-- Return the number of deliveries. The column `handlers` counts later subscribers, too.
WITH chosen AS MATERIALIZED (
    SELECT event FROM pgjobs_event AS event
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE
),
made AS MATERIALIZED (
    SELECT event_id, count(*) AS number
    FROM pgjobs_deliver(
        ARRAY(SELECT event FROM chosen), %(origin)s, %(task)s
    ) AS event_id
    GROUP BY event_id
),
counted AS (
    UPDATE pgjobs_event AS event SET handlers = handlers + made.number
    FROM made WHERE event.id = made.event_id AND event.id = ANY (%(ids)s::bigint[])
)
SELECT coalesce(sum(number), 0)::bigint FROM made
