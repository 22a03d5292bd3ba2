-- Those of these jobs for which a job cannot wait: they wait for it, by whatever is between
-- them. Followed are predecessors, batches, waits for jobs, and ordered locks, which a job
-- keeps while it waits. The search ends after some thousand jobs, and waits end in time. A
-- job that goes on as another one stands for that one.
WITH RECURSIVE reached (root, id) AS (
    SELECT id, pgjobs_newest(id) FROM unnest(%(ids)s::bigint[]) AS given (id)
    UNION
    SELECT reached.root, pgjobs_newest(next.id)
    FROM reached
    CROSS JOIN LATERAL (
        SELECT id, keys, keys ->> 'lock' AS lock,
            keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered
        FROM pgjobs_job
        WHERE id = reached.id AND id <> %(job_id)s AND finished_at IS NULL
        OFFSET 0  -- one look-up for each
    ) AS waiting
    CROSS JOIN LATERAL (
        SELECT predecessor_id FROM pgjobs_predecessor
        WHERE job_id = waiting.id AND is_open AND predecessor_id IS NOT NULL
        UNION ALL
        SELECT named.id::bigint
        FROM jsonb_array_elements_text(waiting.keys -> 'after') AS named (id)
        UNION ALL
        SELECT member.id
        FROM (
            SELECT batch_id FROM pgjobs_predecessor
            WHERE job_id = waiting.id AND is_open AND batch_id IS NOT NULL
            UNION ALL
            SELECT named.id::bigint
            FROM jsonb_array_elements_text(waiting.keys -> 'after_batches') AS named (id)
        ) AS batch
        JOIN pgjobs_job AS member ON member.batch_id = batch.batch_id
        UNION ALL
        SELECT ahead.id FROM pgjobs_job AS ahead
        WHERE ahead.keys ->> 'lock' = waiting.lock AND ahead.status IN ('READY', 'RUNNING')
            AND ahead.id < waiting.id AND waiting.is_ordered
        UNION ALL
        SELECT ahead.id FROM pgjobs_job AS ahead
        WHERE ahead.keys ->> 'lock' = waiting.lock
            AND ahead.status = ANY (ARRAY['WAITING', 'SCHEDULED'])
            AND ahead.keys ->> 'is_ordered' IS DISTINCT FROM 'false'
            AND ahead.id < waiting.id AND ahead.attempts > 0 AND waiting.is_ordered
    ) AS next (id)
)
SELECT DISTINCT root FROM (SELECT root, id FROM reached LIMIT %(limit)s) AS reached
WHERE id = %(job_id)s
ORDER BY root
