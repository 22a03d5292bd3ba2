-- Return a float as Python writes it; keys are made of such texts.
CREATE OR REPLACE FUNCTION pgjobs_float_text(number numeric) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET extra_float_digits = 1 AS $$
DECLARE
    digits text := number::float8::text;
BEGIN
    IF digits ~ 'e[+]15$' THEN  -- Python begins with exponents at 16
        digits := digits::numeric::text;
    END IF;
    RETURN digits || CASE WHEN digits ~ '[.e]' THEN '' ELSE '.0' END;
END
$$;
