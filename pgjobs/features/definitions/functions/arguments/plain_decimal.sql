-- Return the text that all equal decimals have, as `plain_decimal` does in Python: with
-- no needless zeros, and no exponent unless there would be many.
CREATE OR REPLACE FUNCTION pgjobs_plain_decimal(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part CONSTANT text[] := regexp_match(
        replace(value, '_', ''),
        '^ *([-+]?)([0-9]*)(?:[.]([0-9]*))?(?:[eE]([-+]?[0-9]+))? *$'
    );
    mark CONSTANT text := CASE WHEN part[1] = '-' THEN '-' ELSE '' END;
    decimals CONSTANT text := coalesce(part[3], '');
    digits CONSTANT text := ltrim(part[2] || decimals, '0');
    significant CONSTANT text := rtrim(digits, '0');
    places CONSTANT numeric := coalesce(part[4], '0')::numeric
        - length(decimals) + length(digits) - length(significant);
    padded text;
BEGIN
    IF significant = '' THEN
        RETURN '0';
    ELSIF abs(places) > 50 THEN
        RETURN mark || significant || 'E' || places::text;
    ELSIF places >= 0 THEN
        RETURN mark || significant || repeat('0', places::integer);
    END IF;
    padded := lpad(
        significant, greatest(length(significant), 1 - places::integer), '0'
    );
    RETURN mark || left(padded, places::integer) || '.'
        || right(padded, -places::integer);
END
$$;
