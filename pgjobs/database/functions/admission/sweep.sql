-- Look at a batch of lines whose keys may have room, and of links whose predecessor may
-- have ended, although no row and no note says so. A READY job with a key goes back to
-- WAITING to make room if its queue is paused or unserved. A job that was set aside goes
-- back to "arrived" if its queue is served.
CREATE OR REPLACE FUNCTION pgjobs_sweep(
    most integer, INOUT after_line text, INOUT after_link bigint,
    OUT freed_keys jsonb[], OUT followers bigint[], OUT ended bigint[],
    OUT has_more boolean
) LANGUAGE plpgsql AS $$
DECLARE
    lines text[];
    links bigint[];
    predecessors bigint[];
    batches bigint[];
BEGIN
    lines := ARRAY(
        WITH RECURSIVE hop (name, number) AS (
            (SELECT line, 1 FROM pgjobs_job WHERE line > after_line ORDER BY line LIMIT 1)
            UNION ALL
            SELECT (
                SELECT line FROM pgjobs_job WHERE line > hop.name ORDER BY line LIMIT 1
            ), number + 1
            FROM hop WHERE hop.name IS NOT NULL AND number < most
        )
        SELECT name FROM hop WHERE name IS NOT NULL
    );
    freed_keys := ARRAY(
        SELECT sample.keys FROM unnest(lines) AS name
        CROSS JOIN LATERAL (
            SELECT keys FROM pgjobs_job WHERE line = name LIMIT 1
        ) AS sample
        WHERE sample.keys IS NOT NULL AND NOT starts_with(name, 'unserved ')
    );
    has_more := pgjobs_bring_back(lines, most) >= most;
    SELECT array_agg(id),
        array_agg(DISTINCT predecessor_id) FILTER (WHERE predecessor_id IS NOT NULL),
        array_agg(DISTINCT batch_id) FILTER (WHERE batch_id IS NOT NULL)
    INTO links, predecessors, batches
    FROM (
        SELECT id, predecessor_id, batch_id FROM pgjobs_predecessor
        WHERE is_open AND id > 0 AND id > after_link ORDER BY id LIMIT most
    ) AS link;
    SELECT * INTO followers, ended
    FROM pgjobs_close_links(predecessors, batches, most);
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = pgjobs_first_obstacle(keys, dependencies)
    WHERE id = ANY (ARRAY(
        SELECT job.id FROM unnest(freed_keys) AS key
        CROSS JOIN LATERAL (
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'lock' = key ->> 'lock'
                AND keys ->> 'is_ordered' = 'false'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
            UNION ALL
            SELECT id FROM pgjobs_job
            WHERE keys IS NOT NULL AND keys ->> 'limit_key' = key ->> 'limit_key'
                AND status IN ('READY', 'RUNNING') AND status || '' = 'READY'
                AND NOT pgjobs_is_served(queue_name)
            UNION ALL
            SELECT id FROM pgjobs_job
            WHERE keys ? 'rate_key' AND keys ->> 'rate_key' = key ->> 'rate_key'
                AND status = 'READY' AND NOT pgjobs_is_served(queue_name)
        ) AS job
        LIMIT most
    ))
        AND status || '' = 'READY';  -- see sql/worker/claim/pick.sql
    after_line := CASE WHEN cardinality(lines) = most THEN lines[most] ELSE '' END;
    after_link := CASE WHEN cardinality(links) = most THEN links[most] ELSE 0 END;
END
$$;
