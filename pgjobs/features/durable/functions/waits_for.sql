-- Return the jobs that wait for an event of this name and aggregate: the first ones behind a
-- wait, and the last wait among these. Each order is that of the index, and not of the ids
-- alone, along which the planner would walk over all waits. The collation of an argument
-- is that of the name, in which the index of aggregates is not.
CREATE OR REPLACE FUNCTION pgjobs_waits_for(
    name text, of_aggregate text, after bigint, most integer,
    OUT jobs bigint[], OUT last bigint
) LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    SELECT array_agg(wait.job_id), max(wait.id)
    INTO jobs, last
    FROM (
        SELECT each.id, each.job_id
        FROM unnest(pgjobs_patterns(name)) AS pattern
        CROSS JOIN LATERAL (
            (
                SELECT id, job_id FROM pgjobs_wait
                WHERE event = pattern AND aggregate_id IS NULL
                    AND ended_at IS NULL AND id > after
                ORDER BY event, aggregate_id, id LIMIT most
            )
            UNION ALL
            (
                SELECT id, job_id FROM pgjobs_wait
                WHERE event = pattern
                    AND aggregate_id = of_aggregate COLLATE "default"
                    AND ended_at IS NULL AND id > after
                ORDER BY event, aggregate_id, id LIMIT most
            )
        ) AS each
        ORDER BY each.id LIMIT most
    ) AS wait;
END
$$;
