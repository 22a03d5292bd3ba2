-- Put the events and batches of a move into parcels, once all of their jobs have left.
WITH events AS (
    DELETE FROM pgjobs_event AS event
    WHERE payload @> %(arguments)s::jsonb
        AND NOT EXISTS (
            SELECT FROM pgjobs_delivery WHERE event_id = event.id OFFSET 0
        )
    RETURNING *
),
batches AS (
    DELETE FROM pgjobs_batch AS batch
    WHERE id IN (
            SELECT (content ->> 'batch_id')::bigint FROM pgjobs_parcel
            WHERE move_id = %(move)s::uuid AND "table" = 'pgjobs_job'
        )
        AND NOT EXISTS (SELECT FROM pgjobs_job WHERE batch_id = batch.id OFFSET 0)
    RETURNING *
)
INSERT INTO pgjobs_parcel (move_id, "table", content)
SELECT %(move)s::uuid, 'pgjobs_event', to_jsonb(events) FROM events
UNION ALL
SELECT %(move)s::uuid, 'pgjobs_awaitedevent', to_jsonb(awaited)
FROM pgjobs_awaitedevent AS awaited JOIN events ON events.id = awaited.event_id
UNION ALL
SELECT %(move)s::uuid, 'pgjobs_batch', to_jsonb(batches) FROM batches
RETURNING id
