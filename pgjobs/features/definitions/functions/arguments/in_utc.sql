-- Return a moment as it is stored, but in UTC. A time without a zone stays as it is, and
-- so does a moment that is in no year of 1 to 9999 there.
CREATE OR REPLACE FUNCTION pgjobs_in_utc(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    moment timestamp;
    fraction text;
BEGIN
    IF value !~ '[-+][0-9]{2}:[0-9]{2}$' THEN
        RETURN value;
    END IF;
    moment := value::timestamptz AT TIME ZONE 'UTC';
    IF moment < '0001-01-01' OR moment >= '10000-01-01' THEN
        RETURN value;
    END IF;
    fraction := to_char(moment, 'US');
    RETURN to_char(moment, 'YYYY-MM-DD"T"HH24:MI:SS') || CASE
        WHEN fraction <> '000000' THEN '.' || fraction ELSE ''
    END || 'Z';
END
$$;
