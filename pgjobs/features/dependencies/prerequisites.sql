-- For each need: whether a success is recent enough, and a job on its way.
SELECT need.key, need.within,
    coalesce(
        (SELECT max(finished_at) FROM pgjobs_prerequisite WHERE key = need.key)
            > clock_timestamp() - make_interval(secs => need.within),
        false
    ),
    (
        SELECT job_id FROM pgjobs_prerequisite AS coming
        WHERE coming.key = need.key AND coming.finished_at IS NULL
        ORDER BY job_id LIMIT 1
    )
FROM unnest(%(keys)s::text[], %(withins)s::float8[]) AS need (key, within)
