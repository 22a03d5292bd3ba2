-- Lock the rows of these jobs, as far as no other transaction holds them, and return
-- them as candidates that have met no obstacle yet. They are *ordinary* if none needs
-- process units, must run alone or may have expired: a claim alone decides about these.
CREATE OR REPLACE FUNCTION pgjobs_candidates(
    ids bigint[], OUT candidates pgjobs_candidate[], OUT seen bigint[],
    OUT are_linked boolean, OUT are_locked boolean, OUT are_limited boolean,
    OUT are_rated boolean, OUT are_ordinary boolean
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT array_agg(ROW(
            id, queue_name, priority, turn, line, keys ->> 'lock',
            keys ->> 'is_ordered' IS DISTINCT FROM 'false', keys ->> 'limit_key',
            keys -> 'max_running', keys ->> 'rate_key', keys -> 'rate_interval',
            keys -> 'rate_burst', NULL, NULL
        )::pgjobs_candidate),
        array_agg(id),
        bool_or(
            dependencies IS NOT NULL OR keys ?| ARRAY['after', 'after_batches']
        ),
        bool_or(keys ? 'lock'), bool_or(keys ? 'limit_key'), bool_or(keys ? 'rate_key'),
        bool_and(
            process_units IS NULL AND crashes + 1 < max_crashes
            AND (expires_at IS NULL OR attempts > 0)
        )
    INTO candidates, seen, are_linked, are_locked, are_limited, are_rated, are_ordinary
    FROM (
        SELECT id, queue_name, priority, turn, line, keys, dependencies,
            process_units, crashes, max_crashes, expires_at, attempts
        FROM pgjobs_job WHERE id = ANY (ids) AND status = 'WAITING'
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS job;
END
$$;
