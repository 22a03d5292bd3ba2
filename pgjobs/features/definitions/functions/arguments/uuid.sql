-- Return a UUID as it is stored, or NULL if the text is none.
CREATE OR REPLACE FUNCTION pgjobs_uuid(value text) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    hyphened text := '[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}';
BEGIN
    IF value ~ ('^((urn:uuid:)?' || hyphened || '|[{]' || hyphened || '[}]'
        || '|[0-9A-Fa-f]{32})$')
    THEN
        RETURN replace(value, 'urn:uuid:', '')::uuid::text;
    END IF;
    RETURN NULL;
END
$$;
