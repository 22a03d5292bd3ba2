-- Find out which of the jobs meet a lock: a lock that is free lets one of them pass.
CREATE OR REPLACE FUNCTION pgjobs_meet_locks(ids bigint[], obstacles jsonb) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(met.id, to_jsonb(met)), '{}')
        FROM (
            SELECT id, 'lock' AS waiting_for, coalesce(holder_id, first_id) AS blocker,
                pgjobs_line(
                    CASE WHEN is_ordered THEN 'lock' ELSE 'mutex' END, lock
                ) AS line
            FROM (
                SELECT *, first_value(id) OVER (
                        PARTITION BY holder_id IS NULL, lock ORDER BY priority DESC, turn
                    ) AS first_id
                FROM (
                    SELECT id, priority, turn, keys ->> 'lock' AS lock,
                        keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered
                    FROM pgjobs_job
                    WHERE id = ANY (ids) AND keys ? 'lock' AND NOT obstacles ? id::text
                ) AS job
                CROSS JOIN LATERAL (
                    SELECT coalesce(
                        (
                            SELECT other.id FROM pgjobs_job AS other
                            WHERE keys IS NOT NULL AND keys ->> 'lock' = job.lock
                                AND status IN ('READY', 'RUNNING')
                        ),
                        (
                            SELECT first.id FROM (
                                SELECT other.id FROM pgjobs_job AS other
                                WHERE keys IS NOT NULL
                                    AND keys ->> 'lock' BETWEEN job.lock AND job.lock
                                    AND (keys ->> 'is_ordered')
                                        IS DISTINCT FROM 'false'
                                    AND status IN ('WAITING', 'SCHEDULED')
                                ORDER BY keys ->> 'lock', other.id LIMIT 1
                            ) AS first
                            WHERE is_ordered AND first.id < job.id
                        )
                    )
                    OFFSET 0  -- asked once, although it is used twice
                ) AS holder (holder_id)
            ) AS placed
            WHERE holder_id IS NOT NULL OR first_id <> id
        ) AS met
    );
END
$$;
