-- Return what is known of these rates. `taken`: how many jobs have been admitted and are
-- still READY, or have started without an admission that has counted it. They count as if
-- they started now. Both are read by one query, so that it misses no job that is claimed
-- meanwhile.
CREATE OR REPLACE FUNCTION pgjobs_rate_states(rate_keys text[], most integer)
RETURNS TABLE (
    key text, starts timestamptz[], counts integer[], even_at timestamptz,
    opens_at timestamptz, taken bigint
) LANGUAGE sql STABLE AS $$
    SELECT wanted.key, coalesce(rate.starts, '{}'), coalesce(rate.counts, '{}'),
        coalesce(rate.even_at, rate.full_at), rate.opens_at,
        (
            SELECT count(*) FROM (
                SELECT FROM pgjobs_job AS job
                WHERE job.keys ? 'rate_key' AND job.keys ->> 'rate_key' = wanted.key
                    AND job.status = 'READY'
                LIMIT most
            ) AS ready
        ) + coalesce(started.number, 0)
    FROM unnest(rate_keys) AS wanted (key)
    LEFT JOIN LATERAL (
        SELECT * FROM pgjobs_rate WHERE pgjobs_rate.key = wanted.key
        OFFSET 0  -- by its index, also where the planner expects an empty table
    ) AS rate ON true
    LEFT JOIN (
        SELECT note.keys ->> 'rate_key' AS key, count(*) AS number
        FROM pgjobs_note AS note WHERE note.keys ? 'rate_started_at'
        GROUP BY 1
    ) AS started ON started.key = wanted.key
$$;
