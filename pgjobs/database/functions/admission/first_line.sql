-- Return the line in which a job begins to wait.
CREATE OR REPLACE FUNCTION pgjobs_first_line(keys jsonb) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE
        WHEN keys ?| ARRAY['after', 'after_batches'] THEN 'unlinked'
        ELSE 'arrived'
    END
$$;
