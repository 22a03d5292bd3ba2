-- The events since then to which a task subscribes, in order.
SELECT event.id FROM pgjobs_event AS event
WHERE event.id > %(after)s
    AND event.published_at >= %(since)s
    AND (%(name)s::text IS NULL OR pgjobs_matches(%(name)s, event.name))
    AND EXISTS (
        SELECT FROM pgjobs_subscription AS subscription
        WHERE subscription.task = %(task)s
            AND subscription.inactive_at IS NULL
            AND pgjobs_matches(subscription.event, event.name)
    )
ORDER BY event.id
LIMIT %(limit)s
