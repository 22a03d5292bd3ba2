-- Let the rows of an INSERT know, by a setting, that a task is paused. This asks once for
-- each statement; a row pays for a look at the setting. A role that may not read
-- overrides cannot know, nor can a transaction with a snapshot of before: an admission
-- looks at what they insert.
CREATE OR REPLACE FUNCTION pgjobs_see_pauses() RETURNS trigger LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    was_seen CONSTANT boolean := current_setting('pgjobs.pauses', true) = 'on';
    is_seen boolean := true;
BEGIN
    -- Before it looks it has a number, by which workers wait for it: see note_pauses.sql.
    PERFORM pg_current_xact_id();
    IF current_setting('transaction_isolation') = 'read committed'
        AND has_table_privilege('pgjobs_override', 'SELECT')
    THEN
        is_seen := EXISTS (
            SELECT FROM pgjobs_override
            WHERE kind = 'task' AND paused_at IS NOT NULL
                AND (until IS NULL OR until > clock_timestamp())
        );
    END IF;
    IF is_seen <> coalesce(was_seen, false) THEN
        PERFORM set_config(
            'pgjobs.pauses', CASE WHEN is_seen THEN 'on' ELSE '' END, true
        );
    END IF;
    RETURN NULL;
END
$$;
