-- Return the name of an event, and the patterns that fit it: for a.b these are a.b and
-- a.*, as in pgjobs_matches. Each statement would plan a function in SQL anew.
CREATE OR REPLACE FUNCTION pgjobs_patterns(name text) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    parts CONSTANT text[] := string_to_array(name, '.');
    patterns text[] := ARRAY[name];
BEGIN
    FOR number IN 1 .. coalesce(cardinality(parts), 0) - 1 LOOP
        patterns := patterns || (array_to_string(parts[:number], '.') || '.*');
    END LOOP;
    RETURN patterns;
END
$$;
