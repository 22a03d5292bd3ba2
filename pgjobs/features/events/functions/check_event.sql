-- Raise an error if a text of an event is missing, empty or too long.
CREATE OR REPLACE FUNCTION pgjobs_check_event(
    what text, value text, may_be_null boolean
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF value IS NULL AND NOT may_be_null THEN
        RAISE EXCEPTION 'The % of an event must not be NULL.', what
            USING ERRCODE = 'null_value_not_allowed';
    ELSIF value = '' OR length(value) > 200 THEN
        RAISE EXCEPTION 'The % of an event must be 1 to 200 characters, got %.',
            what, length(value) USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;
