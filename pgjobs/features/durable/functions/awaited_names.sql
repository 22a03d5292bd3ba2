-- Return the names of the awaited events that begin so, by one probe of an index for each.
CREATE OR REPLACE FUNCTION pgjobs_awaited_names(stem text) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE hop (name) AS (
            (
                SELECT name FROM pgjobs_awaitedevent
                WHERE name >= stem ORDER BY name LIMIT 1
            )
            UNION ALL
            SELECT (
                SELECT name FROM pgjobs_awaitedevent
                WHERE name > hop.name ORDER BY name LIMIT 1
            )
            FROM hop WHERE starts_with(hop.name, stem)
        )
        SELECT name FROM hop WHERE starts_with(name, stem)
    );
END
$$;
