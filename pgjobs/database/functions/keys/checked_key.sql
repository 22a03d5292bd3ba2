-- Return the key; raise an error if it is too short or too long.
CREATE OR REPLACE FUNCTION pgjobs_checked_key(option text, key text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF length(key) NOT BETWEEN 1 AND 500 THEN
        RAISE EXCEPTION '%: must be 1 to 500 characters long, got %.',
            option, length(key)
            USING ERRCODE = '22023', COLUMN = option;
    END IF;
    RETURN key;
END
$$;
