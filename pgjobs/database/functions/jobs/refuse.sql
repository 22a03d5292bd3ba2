-- Make a statement fail that must not be committed, with an error code of our own.
CREATE OR REPLACE FUNCTION pgjobs_refuse(code text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused by pgjobs' USING ERRCODE = code;
END
$$;
