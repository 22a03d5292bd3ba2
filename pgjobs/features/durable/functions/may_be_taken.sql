-- Return whether a job that has begun no wait yet, or none again, may ask for an event: its
-- task declares the name, and the event may count. Its transaction may have been open for
-- long, and clocks jump, so a day more is kept. One probe of an index for each list of
-- names that jobs have.
CREATE OR REPLACE FUNCTION pgjobs_may_be_taken(name text, published_at timestamptz)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    patterns CONSTANT text[] := pgjobs_patterns(name);
BEGIN
    RETURN EXISTS (
        WITH RECURSIVE hop (digest, waits_for, since) AS (
            (
                SELECT md5(keys ->> 'waits_for'), keys -> 'waits_for', enqueued_at
                FROM pgjobs_job
                WHERE keys ? 'waits_for' AND finished_at IS NULL
                    AND coalesce(waiting_for, '') NOT IN ('answer', 'event', 'jobs')
                ORDER BY md5(keys ->> 'waits_for'), enqueued_at LIMIT 1
            )
            UNION ALL
            SELECT next.*
            FROM hop
            CROSS JOIN LATERAL (
                SELECT md5(keys ->> 'waits_for'), keys -> 'waits_for', enqueued_at
                FROM pgjobs_job
                WHERE keys ? 'waits_for' AND finished_at IS NULL
                    AND coalesce(waiting_for, '') NOT IN ('answer', 'event', 'jobs')
                    AND md5(keys ->> 'waits_for') > hop.digest
                ORDER BY md5(keys ->> 'waits_for'), enqueued_at LIMIT 1
            ) AS next
        )
        SELECT FROM hop
        WHERE waits_for ?| patterns AND since <= published_at + interval '1 day'
    );
END
$$;
