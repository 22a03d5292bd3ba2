-- Find out which of the jobs wait for a predecessor or dependency. Those that do not,
-- and stand in a queue that no worker serves, stay where they are: an admission looks at
-- no other jobs of such queues.
CREATE OR REPLACE FUNCTION pgjobs_meet_links(ids bigint[]) RETURNS jsonb
LANGUAGE plpgsql AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_object_agg(met.id, to_jsonb(met)), '{}')
        FROM (
            SELECT job.id, predecessor_id AS blocker,
                CASE
                    WHEN needs = 'dependency' OR needs IS NULL AND is_undecided
                        THEN 'dependency'
                    WHEN needs IS NOT NULL THEN 'predecessor'
                    ELSE waiting_for  -- and unserved
                END AS waiting_for,
                CASE
                    WHEN needs IS NOT NULL THEN 'predecessor'
                    WHEN is_undecided THEN 'undecided'
                    ELSE pgjobs_line('unserved', queue_name)
                END AS line
            FROM pgjobs_job AS job
            LEFT JOIN LATERAL (
                SELECT predecessor_id, needs FROM pgjobs_predecessor
                WHERE job_id = job.id AND is_open
                ORDER BY needs = 'dependency', predecessor_id LIMIT 1
            ) AS link ON true
            CROSS JOIN LATERAL (
                SELECT needs IS NULL AND dependencies IS NOT NULL
                    AND pgjobs_lacks_dependency(dependencies)
                OFFSET 0  -- asked once, although it is used three times
            ) AS own (is_undecided)
            WHERE job.id = ANY (ids)
                AND (dependencies IS NOT NULL OR keys ?| ARRAY['after', 'after_batches'])
                AND (
                    needs IS NOT NULL OR is_undecided
                    OR NOT pgjobs_is_served(queue_name)
                )
        ) AS met
    );
END
$$;
