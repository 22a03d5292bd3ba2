-- Raise an error if an option of pgjobs_enqueue is out of its range.
CREATE OR REPLACE FUNCTION pgjobs_check_options(
    priority integer, queue_name text, run_after timestamptz, keep text
) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    option text;
    fault text;
BEGIN
    IF priority NOT BETWEEN -100 AND 100 THEN
        option := 'priority';
        fault := format(
            'must be a whole number between -100 and 100, got %s', priority
        );
    ELSIF queue_name !~ '^[^,[:cntrl:]]{1,200}$' OR queue_name ~ '^ | $' THEN
        option := 'queue_name';
        fault := format(
            'must be 1 to 200 characters without commas or control characters, and '
            'not begin or end with a space, got ''%s''', queue_name
        );
    ELSIF run_after < '1970-01-01 00:00+00' OR run_after >= '9999-01-01 00:00+00'
    THEN
        option := 'run_after';
        fault := format('must lie in the years 1970 to 9998, got %s', run_after);
    ELSIF keep NOT IN ('all', 'failed') THEN
        option := 'keep';
        fault := format('must be ''all'' or ''failed'', got ''%s''', keep);
    ELSE
        RETURN;
    END IF;
    RAISE EXCEPTION '% %.', option, fault
        USING ERRCODE = '22023', COLUMN = option,
            HINT = 'NULL leaves it as the task declares it.';
END
$$;
