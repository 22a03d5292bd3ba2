-- Return the jobs of the circles in which a job stands, or would stand, if it waits for these
-- others: those which wait for it, by whatever is between them, and itself. Empty: there is
-- no circle. Followed are predecessors, batches, waits for jobs, and ordered locks, which a
-- job keeps while it waits. The search ends after so many jobs. A job that goes on as
-- another one stands for that one.
--
-- The settings keep the planner from reading all jobs or links for a level of the search.
CREATE OR REPLACE FUNCTION pgjobs_circle_with(job bigint, others bigint[], most integer)
RETURNS bigint[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET search_path FROM CURRENT
AS $$
DECLARE
    level bigint[] := ARRAY(SELECT DISTINCT pgjobs_newest(id) FROM unnest(others) AS id);
    seen bigint[] := level;
    waiting bigint[] := '{}';
    waited_for bigint[] := '{}';
    found record;
BEGIN
    WHILE level <> '{}' AND cardinality(seen) < most LOOP
        SELECT coalesce(array_agg(id), '{}') AS ids, coalesce(array_agg(other), '{}') AS others
        INTO found
        FROM (
            SELECT each.id, pgjobs_newest(next.id) AS other
            FROM (
                SELECT id, keys, keys ->> 'lock' AS lock,
                    keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered
                FROM pgjobs_job
                WHERE id = ANY (level) AND id <> job AND finished_at IS NULL
                OFFSET 0
            ) AS each
            CROSS JOIN LATERAL (
                SELECT predecessor_id FROM pgjobs_predecessor
                WHERE job_id = each.id AND is_open AND predecessor_id IS NOT NULL
                UNION ALL
                SELECT named.id::bigint
                FROM jsonb_array_elements_text(each.keys -> 'after') AS named (id)
                UNION ALL
                SELECT member.id
                FROM (
                    SELECT batch_id FROM pgjobs_predecessor
                    WHERE job_id = each.id AND is_open AND batch_id IS NOT NULL
                    UNION ALL
                    SELECT named.id::bigint
                    FROM jsonb_array_elements_text(each.keys -> 'after_batches')
                        AS named (id)
                ) AS batch
                JOIN pgjobs_job AS member ON member.batch_id = batch.batch_id
                UNION ALL
                SELECT ahead.id FROM pgjobs_job AS ahead
                WHERE ahead.keys ->> 'lock' = each.lock
                    AND ahead.status IN ('READY', 'RUNNING')
                    AND ahead.id < each.id AND each.is_ordered
                UNION ALL
                SELECT ahead.id FROM pgjobs_job AS ahead
                WHERE ahead.keys ->> 'lock' = each.lock
                    AND ahead.status = ANY (ARRAY['WAITING', 'SCHEDULED'])
                    AND ahead.keys ->> 'is_ordered' IS DISTINCT FROM 'false'
                    AND ahead.id < each.id AND ahead.attempts > 0 AND each.is_ordered
            ) AS next (id)
            LIMIT most
        ) AS edge;
        waiting := waiting || found.ids;
        waited_for := waited_for || found.others;
        level := ARRAY(SELECT unnest(found.others) EXCEPT SELECT unnest(seen));
        seen := seen || level;
    END LOOP;
    IF NOT job = ANY (seen) THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        WITH RECURSIVE circle (id) AS (
            SELECT job
            UNION
            SELECT edge.id
            FROM circle
            JOIN unnest(waiting, waited_for) AS edge (id, other) ON edge.other = circle.id
        )
        SELECT id FROM circle
    );
END
$$;
