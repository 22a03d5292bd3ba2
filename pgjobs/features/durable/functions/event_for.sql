-- Return the oldest event that a job may take in a wait, or NULL: one that counts for the
-- job, and that no other wait of its life took. In its own cluster transactions decide,
-- in the order of their ids. For events of another one, as after a restore, and for a
-- job that a plain INSERT made, time decides. What the jobs have taken which go on as
-- this one stands as of life 0 (see hand_on.sql).
--
-- A query for each case: one for all would read every event of later names.
CREATE OR REPLACE FUNCTION pgjobs_event_for(
    job pgjobs_job, wanted text, wanted_aggregate text
) RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    enqueued_in CONSTANT jsonb := job.keys -> 'enqueued_in';
    own_cluster CONSTANT bigint := coalesce((enqueued_in -> 'cluster')::bigint, -1);
    -- All transactions below were over, and what they committed was seen.
    lowest CONSTANT bigint := split_part(enqueued_in ->> 'snapshot', ':', 1)::bigint;
    is_pattern CONSTANT boolean := right(wanted, 2) = '.*';
    names CONSTANT text[] := CASE
        WHEN NOT is_pattern THEN ARRAY[wanted]
        ELSE pgjobs_awaited_names(left(wanted, -1))
    END;
    taken CONSTANT bigint[] := ARRAY(
        SELECT event_id FROM pgjobs_wait
        WHERE job_id = job.id AND life IN (0, job.life) AND event_id IS NOT NULL
    );
    oldest bigint;
BEGIN
    IF wanted_aggregate IS NULL THEN
        SELECT event_id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, transaction FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster = own_cluster
                AND transaction >= lowest AND pgjobs_counts(enqueued_in, transaction)
                AND event_id <> ALL (taken)
            ORDER BY transaction, event_id LIMIT 1
        ) AS first
        ORDER BY transaction, event_id LIMIT 1;
    ELSE
        SELECT event_id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, transaction FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND aggregate_id = wanted_aggregate
                AND cluster = own_cluster AND transaction >= lowest
                AND pgjobs_counts(enqueued_in, transaction)
                AND event_id <> ALL (taken)
            ORDER BY transaction, event_id LIMIT 1
        ) AS first
        ORDER BY transaction, event_id LIMIT 1;
    END IF;
    IF oldest IS NULL THEN
        SELECT event.id INTO oldest
        FROM unnest(names) AS given (name)
        CROSS JOIN LATERAL (
            SELECT event_id, aggregate_id FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster < own_cluster
            UNION ALL
            SELECT event_id, aggregate_id FROM pgjobs_awaitedevent AS awaited
            WHERE awaited.name = given.name AND cluster > own_cluster
        ) AS elsewhere
        JOIN pgjobs_event AS event ON event.id = elsewhere.event_id
        WHERE event.published_at >= job.enqueued_at AND event.id <> ALL (taken)
            AND coalesce(
                elsewhere.aggregate_id = wanted_aggregate, wanted_aggregate IS NULL
            )
        ORDER BY event.id LIMIT 1;
    END IF;
    RETURN oldest;
END
$$;
