-- Return whether the outcome of a predecessor is what the job needs. The outcome
-- 'GONE' is that of a predecessor that was deleted before it ended.
CREATE OR REPLACE FUNCTION pgjobs_meets(needs text, outcome text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE needs
        WHEN 'end' THEN true
        WHEN 'failure' THEN outcome = 'FAILED'
        ELSE outcome = 'SUCCESSFUL'
    END
$$;
