-- Return whether no job that succeeded recently enough provides what a job depends on.
-- `Job.dependencies` has what a job needs, and what it provides: the keys by which
-- other jobs may need it.
CREATE OR REPLACE FUNCTION pgjobs_lacks_dependency(dependencies jsonb) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RETURN dependencies IS NOT NULL AND EXISTS (
        SELECT FROM jsonb_to_recordset(dependencies -> 'needs')
            AS need (key text, "within" float8)
        WHERE coalesce(
            -- The latest success stands at the end of the index.
            (SELECT max(finished_at) FROM pgjobs_prerequisite WHERE key = need.key)
                < clock_timestamp() - make_interval(secs => need."within"),
            true
        )
    );
END
$$;
