-- Return whether there is such a day.
CREATE OR REPLACE FUNCTION pgjobs_is_date(year integer, month integer, day integer)
RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF year < 1 OR month NOT BETWEEN 1 AND 12 OR day NOT BETWEEN 1 AND 31 THEN
        RETURN false;
    END IF;
    RETURN day <= extract(
        day FROM make_date(year, month, 1) + interval '1 month - 1 day'
    );
END
$$;
