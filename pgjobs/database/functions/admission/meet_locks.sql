-- Find out which of the candidates meet a lock: a lock that is free lets one of them
-- pass.
CREATE OR REPLACE FUNCTION pgjobs_meet_locks(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered, limit_key,
            max_running, rate_key, rate_interval, rate_burst,
            CASE WHEN loses THEN 'lock' ELSE obstacle END,
            CASE WHEN loses THEN coalesce(holder_id, first_id) ELSE blocker END
        )::pgjobs_candidate
        FROM (
            SELECT *, obstacle IS NULL AND lock IS NOT NULL
                    AND (holder_id IS NOT NULL OR first_id <> id) AS loses
            FROM (
                SELECT *, first_value(id) OVER (
                        PARTITION BY obstacle IS NULL AND holder_id IS NULL, lock
                        ORDER BY priority DESC, turn
                    ) AS first_id
                FROM unnest(candidates) AS candidate
                CROSS JOIN LATERAL (
                    SELECT coalesce(
                        (
                            SELECT job.id FROM pgjobs_job AS job
                            WHERE keys IS NOT NULL AND keys ->> 'lock' = candidate.lock
                                AND status IN ('READY', 'RUNNING')
                        ),
                        (
                            SELECT first.id FROM (
                                SELECT job.id FROM pgjobs_job AS job
                                WHERE keys IS NOT NULL
                                    AND keys ->> 'lock'
                                        BETWEEN candidate.lock AND candidate.lock
                                    AND (keys ->> 'is_ordered')
                                        IS DISTINCT FROM 'false'
                                    AND status IN ('WAITING', 'SCHEDULED')
                                ORDER BY keys ->> 'lock', job.id LIMIT 1
                            ) AS first
                            WHERE is_ordered AND first.id < candidate.id
                        )
                    )
                    OFFSET 0  -- asked once, although it is used twice
                ) AS holder (holder_id)
            ) AS placed
        ) AS decided
    );
END
$$;
