-- Lock the rows of these jobs and find those that meet a predecessor, a dependency, an
-- unserved queue or a lock. Each lock lets one candidate pass.
CREATE OR REPLACE FUNCTION pgjobs_meet_locks(ids bigint[]) RETURNS pgjobs_candidate[]
LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        WITH job AS MATERIALIZED (
            SELECT id, queue_name, priority, turn, line, keys, dependencies,
                keys ->> 'lock' AS lock,
                keys ->> 'is_ordered' IS DISTINCT FROM 'false' AS is_ordered,
                dependencies IS NOT NULL
                    OR keys ?| ARRAY['after', 'after_batches'] AS is_linked
            FROM pgjobs_job
            WHERE id = ANY (ids) AND status = 'WAITING'
            FOR NO KEY UPDATE SKIP LOCKED
        ),
        met AS (
            SELECT job.*,
                CASE
                    WHEN link.obstacle IS NOT NULL THEN link.obstacle
                    WHEN dependencies IS NOT NULL
                        AND pgjobs_lacks_dependency(dependencies) THEN 'undecided'
                    -- Other jobs of unserved queues are not even candidates.
                    WHEN is_linked AND NOT pgjobs_is_served(queue_name)
                        THEN 'unserved'
                    WHEN holder.id IS NOT NULL THEN 'lock'
                END AS obstacle,
                coalesce(link.predecessor_id, holder.id) AS blocker
            FROM job
            LEFT JOIN LATERAL (
                SELECT predecessor_id,
                    CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END
                        AS obstacle
                FROM pgjobs_predecessor
                WHERE job.is_linked AND job_id = job.id AND is_open
                ORDER BY needs = 'dependency', predecessor_id LIMIT 1
            ) AS link ON true
            LEFT JOIN LATERAL (
                SELECT coalesce(
                    (
                        SELECT id FROM pgjobs_job
                        WHERE keys IS NOT NULL AND keys ->> 'lock' = job.lock
                            AND status IN ('READY', 'RUNNING')
                    ),
                    (
                        SELECT first.id FROM (
                            SELECT id FROM pgjobs_job
                            WHERE keys IS NOT NULL
                                AND keys ->> 'lock' BETWEEN job.lock AND job.lock
                                AND (keys ->> 'is_ordered')
                                    IS DISTINCT FROM 'false'
                                AND finished_at IS NULL
                            ORDER BY keys ->> 'lock', id LIMIT 1
                        ) AS first
                        WHERE job.is_ordered AND first.id < job.id
                    )
                ) AS id
                WHERE job.lock IS NOT NULL
            ) AS holder ON true
        )
        SELECT ROW(
            id, queue_name, priority, turn, line, lock, is_ordered,
            keys ->> 'limit_key', keys -> 'max_running',
            keys ->> 'rate_key', keys -> 'rate_interval', keys -> 'rate_burst',
            CASE WHEN loses THEN 'lock' ELSE obstacle END,
            CASE WHEN loses THEN first_id ELSE blocker END
        )::pgjobs_candidate
        FROM (
            SELECT *, obstacle IS NULL AND lock IS NOT NULL AND first_id <> id AS loses
            FROM (
                SELECT *, first_value(id) OVER (
                        PARTITION BY obstacle IS NULL, lock
                        ORDER BY priority DESC, turn
                    ) AS first_id
                FROM met
            ) AS placed
        ) AS decided
    );
END
$$;
