-- Return how many bytes of JSON a value is as Python writes it. PostgreSQL writes spaces
-- and no exponents; what is no larger than `most` with them is not counted exactly.
CREATE OR REPLACE FUNCTION pgjobs_json_size(value jsonb, most integer)
RETURNS integer LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size CONSTANT integer := octet_length(value::text);
BEGIN
    RETURN CASE
        WHEN size > most THEN octet_length(pgjobs_json_text(value)) ELSE size
    END;
END
$$;
