-- Check a text by the format that its schema names.
CREATE OR REPLACE FUNCTION pgjobs_formatted(
    format text, value text, OUT stored jsonb, OUT fault text
) LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE format
    WHEN 'date' THEN
        stored := to_jsonb(pgjobs_date(value));
        fault := 'input should be a valid date in the format YYYY-MM-DD';
    WHEN 'date-time' THEN
        stored := to_jsonb(pgjobs_date_time(value));
        fault := 'input should be a valid datetime';
    WHEN 'time' THEN
        stored := to_jsonb(pgjobs_time(value));
        fault := 'input should be in a valid time format';
    WHEN 'uuid' THEN
        stored := to_jsonb(pgjobs_uuid(value));
        fault := 'input should be a valid UUID';
    END CASE;
    IF stored IS NOT NULL THEN
        fault := NULL;
    END IF;
END
$$;
