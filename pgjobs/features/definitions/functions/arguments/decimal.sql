-- Return a decimal as Python writes it, or NULL if the value is none. A text with an
-- exponent, or that Python would give one, stays as it is.
CREATE OR REPLACE FUNCTION pgjobs_decimal(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    digits text := value #>> '{}';
BEGIN
    IF jsonb_typeof(value) = 'number' THEN
        RETURN pgjobs_decimal_number(value::numeric);
    ELSIF jsonb_typeof(value) <> 'string' OR digits !~*
        '^ *[-+]?([0-9][0-9_]*([.][0-9_]*)?|[.][0-9][0-9_]*)(e[-+]?[0-9]+)? *$'
    THEN
        RETURN NULL;
    ELSIF digits ~* '[e_]' OR digits ~ '^ *-[0.]+ *$|[.]0{6}' THEN
        RETURN value;
    END IF;
    RETURN to_jsonb((btrim(digits)::numeric)::text);
END
$$;
