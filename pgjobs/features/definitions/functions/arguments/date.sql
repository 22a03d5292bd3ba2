-- Return a date as it is stored, or NULL if the text is none.
--
-- This and the functions for times read as pydantic does in its strict JSON mode,
-- except for numbers in a text such as "1700000000". They return the form in which
-- pydantic writes them.
CREATE OR REPLACE FUNCTION pgjobs_date(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := regexp_match(value, '^([0-9]{4})-([0-9]{2})-([0-9]{2})$');
BEGIN
    RETURN CASE
        WHEN pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int) THEN value
    END;
END
$$;
