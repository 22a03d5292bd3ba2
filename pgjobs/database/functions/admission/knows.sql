-- Return whether admissions decide about the jobs that wait for this. A job that waits
-- for anything else, of a later release, is left alone until a statement makes it READY.
CREATE OR REPLACE FUNCTION pgjobs_knows(waiting_for text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT waiting_for IN (
        'predecessor', 'dependency', 'gate', 'lock', 'limit', 'rate'
    )
$$;
