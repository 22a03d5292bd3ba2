-- Raise an error with this code, so that the statement is not committed.
CREATE OR REPLACE FUNCTION pgjobs_refuse(code text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'refused by pgjobs' USING ERRCODE = code;
END
$$;
