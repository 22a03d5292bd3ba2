-- Insert the deliveries of events and their jobs, with ids that rise with those of the
-- events. `only_to`: one task, or NULL for all. Return the event's id for each
-- delivery. A task that has had an event does not get it again.
--
-- The plan is kept. Planning for each event would take as long as inserting its jobs,
-- and no table in it is large.
CREATE OR REPLACE FUNCTION pgjobs_deliver(
    events pgjobs_event[], origin text, only_to text
) RETURNS SETOF bigint LANGUAGE plpgsql
SET search_path FROM CURRENT
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN QUERY
    WITH wanted AS MATERIALIZED (
        SELECT nextval('pgjobs_job_id_seq') AS job_id, given.*
        FROM (
            SELECT event.id AS event_id, event.aggregate_id, handler.*,
                event.payload AS kwargs,
                CASE
                    WHEN event.correlation_id IS NULL THEN event.meta
                    ELSE coalesce(event.meta, '{}')
                        || jsonb_build_object('correlation_id', event.correlation_id)
                END AS meta
            FROM unnest(events) AS event
            CROSS JOIN LATERAL pgjobs_handlers(event.name) AS handler
            WHERE only_to IS NULL OR handler.task = only_to
            ORDER BY event.id, handler.id
        ) AS given
    ),
    delivery AS MATERIALIZED (
        INSERT INTO pgjobs_delivery AS made (event_id, task, job_id, origin)
        SELECT event_id, task, job_id, pgjobs_deliver.origin FROM wanted
        ON CONFLICT (event_id, task) DO NOTHING
        RETURNING made.event_id, made.job_id
    ),
    job AS (
        INSERT INTO pgjobs_job
            (id, $subscribed_columns, kwargs, meta, expires_at, keys)
        SELECT wanted.job_id, $subscribed_columns, kwargs, meta,
            statement_timestamp() + make_interval(secs => expires_in),
            -- One lock for each handler and aggregate keeps them in order.
            CASE
                WHEN is_ordered AND aggregate_id IS NOT NULL
                    THEN coalesce(keys, '{}') || jsonb_build_object(
                        'lock', task || ' ' || aggregate_id, 'is_ordered', true
                    )
                ELSE keys
            END
        FROM wanted JOIN delivery ON delivery.job_id = wanted.job_id
        ORDER BY wanted.job_id
    )
    SELECT delivery.event_id FROM delivery;
END
$$;
