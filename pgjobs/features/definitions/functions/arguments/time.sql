-- Return a time as it is stored, or NULL if the text is none: see date.sql.
CREATE OR REPLACE FUNCTION pgjobs_time(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN substr(pgjobs_date_time('2000-01-01T' || value), 12);
END
$$;
