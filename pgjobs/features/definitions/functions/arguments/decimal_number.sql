-- Return a number as Python writes it as a decimal, or NULL if it is too large.
CREATE OR REPLACE FUNCTION pgjobs_decimal_number(number numeric) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF scale(number) = 0 THEN
        RETURN to_jsonb(number::text);
    ELSIF NOT pgjobs_fits_float(number) THEN
        RETURN NULL;
    ELSIF number <> 0 AND abs(number) < 0.000001 THEN
        RETURN to_jsonb(replace(upper(pgjobs_float_text(number)), 'E-0', 'E-'));
    END IF;
    RETURN to_jsonb(trim_scale(pgjobs_float_text(number)::numeric)::text);
END
$$;
