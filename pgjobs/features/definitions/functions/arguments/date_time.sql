-- Return a date with a time as it is stored, or NULL if the text is none: see date.sql.
CREATE OR REPLACE FUNCTION pgjobs_date_time(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    part text[] := regexp_match(
        value,
        '^([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt _]'
        '([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?'
        '(?:([Zz])|([-+])([0-9]{2}):?([0-9]{2}))?$'
    );
    fraction text;
BEGIN
    IF part IS NULL
        OR NOT pgjobs_is_date(part[1]::int, part[2]::int, part[3]::int)
        OR part[4] > '23' OR part[5] > '59' OR part[6] > '59'
        OR part[10] > '23' OR part[11] > '59'
    THEN
        RETURN NULL;
    END IF;
    fraction := rpad(left(part[7], 6), 6, '0');
    RETURN format(
        '%s-%s-%sT%s:%s:%s', part[1], part[2], part[3], part[4], part[5],
        coalesce(part[6], '00')
    ) || CASE WHEN fraction <> '000000' THEN '.' || fraction ELSE '' END
    || CASE
        WHEN part[8] IS NOT NULL OR part[10] || part[11] = '0000' THEN 'Z'
        WHEN part[9] IS NULL THEN ''
        ELSE part[9] || part[10] || ':' || part[11]
    END;
END
$$;
