-- Look at some batches behind an id, and delete those that have lost all their jobs.
-- Return how many were deleted, and behind which id to go on, or NULL at the end.
WITH seen AS MATERIALIZED (
    SELECT id, enqueued_at FROM pgjobs_batch
    WHERE id > %(after)s
    ORDER BY id
    LIMIT %(limit)s
),
pruned AS (
    DELETE FROM pgjobs_batch AS batch
    WHERE id = ANY (ARRAY(
        SELECT id FROM seen
        WHERE enqueued_at < clock_timestamp() - interval '1 hour'
            AND NOT EXISTS (SELECT FROM pgjobs_job WHERE batch_id = seen.id OFFSET 0)
            -- Another job has still to learn how it has ended.
            AND NOT EXISTS (
                SELECT FROM pgjobs_predecessor
                WHERE batch_id = seen.id AND is_open
                OFFSET 0
            )
            AND NOT EXISTS (
                SELECT FROM pgjobs_job
                WHERE line = 'unlinked' AND keys -> 'after_batches' @> to_jsonb(seen.id)
                OFFSET 0
            )
            AND NOT /*referred*/ false  -- by other tables: see queue/references.py
    ))
    RETURNING id
)
SELECT (SELECT count(*) FROM pruned),
    CASE WHEN (SELECT count(*) FROM seen) = %(limit)s THEN (SELECT max(id) FROM seen) END
