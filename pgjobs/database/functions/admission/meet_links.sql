-- Find out which of the candidates wait for a predecessor or dependency. Those that do
-- not, and stand in a queue that no worker serves, stay where they are: other jobs of
-- such queues are not even candidates.
CREATE OR REPLACE FUNCTION pgjobs_meet_links(candidates pgjobs_candidate[])
RETURNS pgjobs_candidate[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT ROW(
            candidate.id, candidate.queue_name, candidate.priority, candidate.turn,
            candidate.line, lock, is_ordered, limit_key, max_running, rate_key,
            rate_interval, rate_burst,
            CASE
                WHEN link.obstacle IS NOT NULL THEN link.obstacle
                WHEN dependencies IS NOT NULL
                    AND pgjobs_lacks_dependency(dependencies) THEN 'undecided'
                WHEN is_linked AND NOT pgjobs_is_served(candidate.queue_name)
                    THEN 'unserved'
            END,
            link.predecessor_id
        )::pgjobs_candidate
        FROM unnest(candidates) AS candidate
        CROSS JOIN LATERAL (
            SELECT dependencies, dependencies IS NOT NULL
                OR keys ?| ARRAY['after', 'after_batches'] AS is_linked
            FROM pgjobs_job WHERE pgjobs_job.id = candidate.id
            OFFSET 0  -- asked for each: no join with all jobs
        ) AS job
        LEFT JOIN LATERAL (
            SELECT predecessor_id,
                CASE needs WHEN 'dependency' THEN needs ELSE 'predecessor' END
                    AS obstacle
            FROM pgjobs_predecessor
            WHERE job.is_linked AND job_id = candidate.id AND is_open
            ORDER BY needs = 'dependency', predecessor_id LIMIT 1
        ) AS link ON true
    );
END
$$;
