-- Hold those READY jobs behind a place, `most` of them at most, whose task or key is
-- paused. Return behind which place to go on, and how many it held. The walk follows
-- the order of claims, in an index that has READY jobs alone.
--
-- A plain job goes to the line of its pause at once: the setting tells
-- pgjobs_queue_changed so. For one with keys that trigger sees to these, and an admission
-- to the rest. A job whose row another transaction holds is skipped: it may be claimed
-- or changed right now, or be READY afterwards.
CREATE OR REPLACE FUNCTION pgjobs_hold_ready(
    INOUT after_priority integer, INOUT after_turn bigint, most integer,
    OUT number_held integer, OUT has_more boolean, OUT has_skipped boolean
) LANGUAGE plpgsql
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET search_path FROM CURRENT
AS $$
DECLARE
    found record;
    number_of_keyed integer;
BEGIN
    SELECT array_agg(id) FILTER (WHERE line IS NOT NULL AND keys IS NULL) AS plain,
        array_agg(id) FILTER (WHERE line IS NOT NULL AND keys IS NOT NULL) AS keyed,
        count(*) = most AS has_more,
        (array_agg(priority ORDER BY place DESC))[1] AS priority,
        (array_agg(turn ORDER BY place DESC))[1] AS turn
    INTO found
    FROM (
        SELECT id, keys, priority, turn, pgjobs_paused_line(task, keys) AS line,
            row_number() OVER () AS place
        FROM (
            -- LIKE: the condition of the index.
            (
                SELECT id, task, keys, priority, turn FROM pgjobs_job
                WHERE status LIKE 'READY%'
                    AND priority = after_priority AND turn > after_turn
                ORDER BY priority DESC, turn LIMIT most
            )
            UNION ALL
            (
                SELECT id, task, keys, priority, turn FROM pgjobs_job
                WHERE status LIKE 'READY%' AND priority < after_priority
                ORDER BY priority DESC, turn LIMIT most
            )
            LIMIT most
        ) AS walked
        OFFSET 0
    ) AS job;
    has_more := found.has_more;
    after_priority := coalesce(found.priority, after_priority);
    after_turn := coalesce(found.turn, after_turn);
    PERFORM set_config('pgjobs.admits', 'on', true);
    UPDATE pgjobs_job
    SET status = 'WAITING', waiting_for = 'limit', line = pgjobs_paused_line(task, NULL)
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found.plain)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
        AND status || '' = 'READY';  -- see sql/worker/claim/pick.sql
    GET DIAGNOSTICS number_held = ROW_COUNT;
    PERFORM set_config('pgjobs.admits', '', true);
    UPDATE pgjobs_job
    SET status = 'WAITING',
        waiting_for = coalesce(pgjobs_first_obstacle(keys, dependencies), 'limit')
    WHERE id = ANY (ARRAY(
        SELECT id FROM pgjobs_job WHERE id = ANY (found.keyed)
        FOR NO KEY UPDATE SKIP LOCKED
    ))
        AND status || '' = 'READY';
    GET DIAGNOSTICS number_of_keyed = ROW_COUNT;
    number_held := number_held + number_of_keyed;
    has_skipped := number_held < coalesce(cardinality(found.plain), 0)
        + coalesce(cardinality(found.keyed), 0);
END
$$;
