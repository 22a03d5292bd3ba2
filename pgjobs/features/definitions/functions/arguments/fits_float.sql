-- Return whether a number is finite as a float.
CREATE OR REPLACE FUNCTION pgjobs_fits_float(number numeric) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN abs(number) < 1.797693134862315807e308;
END
$$;
