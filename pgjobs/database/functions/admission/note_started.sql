-- Leave a note that a READY job with a rate has started, for the next admission to count.
-- The claim of a plain job never comes here. A role that may not insert notes leaves
-- none: one job must not keep a claim from taking the others.
CREATE OR REPLACE FUNCTION pgjobs_note_started() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    keys jsonb := NEW.keys;
BEGIN
    IF NOT has_table_privilege('pgjobs_note', 'INSERT') THEN
        RETURN NULL;
    END IF;
    IF has_table_privilege('pgjobs_override', 'SELECT') AND pgjobs_changes_flow() THEN
        keys := pgjobs_keys_now(NEW.task, keys);
    END IF;
    INSERT INTO pgjobs_note (keys) VALUES (jsonb_build_object(
        'rate_key', keys -> 'rate_key',
        'rate_interval', keys -> 'rate_interval',
        'rate_burst', keys -> 'rate_burst',
        'rate_number', keys -> 'rate_number',
        'rate_started_at', extract(epoch FROM NEW.last_attempted_at)
    ));
    RETURN NULL;
END
$$;
