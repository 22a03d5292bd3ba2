-- Return the first kind of obstacle that a job may meet, or NULL if it has none.
CREATE OR REPLACE FUNCTION pgjobs_first_obstacle(keys jsonb, dependencies jsonb)
RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN CASE
        WHEN keys ?| ARRAY['after', 'after_batches'] THEN 'predecessor'
        WHEN dependencies -> 'needs' <> '[]' THEN 'dependency'
        WHEN keys ? 'gate' THEN 'gate'
        WHEN keys ? 'lock' THEN 'lock'
        WHEN keys ? 'limit_key' THEN 'limit'
        WHEN keys ? 'rate_key' THEN 'rate'
    END;
END
$$;
