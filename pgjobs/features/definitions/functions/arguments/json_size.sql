-- Return how many bytes the JSON of a value takes as Python writes it. PostgreSQL's
-- JSON is larger, with spaces and without exponents. If that is not above `most`, its
-- size is returned.
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
