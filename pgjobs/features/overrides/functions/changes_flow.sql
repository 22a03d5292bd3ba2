-- Return whether operators have changed any limit or rate: mostly they have not, and
-- then nobody looks for those of a job.
CREATE OR REPLACE FUNCTION pgjobs_changes_flow() RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM pgjobs_override
        WHERE max_running IS NOT NULL OR rate_number IS NOT NULL
    )
$$;
