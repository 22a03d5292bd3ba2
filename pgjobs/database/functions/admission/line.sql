-- Return the name of the line for a key.
CREATE OR REPLACE FUNCTION pgjobs_line(kind text, key text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
    -- An entry of an index may not be larger.
    SELECT kind || ' ' || CASE
        WHEN octet_length(key) <= 500 THEN key ELSE 'md5 ' || md5(key)
    END
$$;
