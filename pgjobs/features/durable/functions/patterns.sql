-- Return the name of an event, and the patterns that fit it: for a.b these are a.b and
-- a.*, as in pgjobs_matches.
CREATE OR REPLACE FUNCTION pgjobs_patterns(name text) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT ARRAY[name] || ARRAY(
        SELECT left(name, place) || '*' FROM generate_series(1, length(name)) AS place
        WHERE substr(name, place, 1) = '.'
    )
$$;
