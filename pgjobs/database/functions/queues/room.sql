-- Return how many jobs of a limited queue may be claimed.
--
-- Each claim counts the rows of running jobs, under a lock that is held until the claim
-- is committed. So two workers never count on the same room. No worker waits for the
-- lock. Without it there is no room, and the worker fetches again within milliseconds.
-- VOLATILE lets the count see what was committed since the statement began, and what
-- the statement itself has recorded.
CREATE OR REPLACE FUNCTION pgjobs_room(queue text) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    -- The class of these locks: "pgjq" in ASCII.
    IF NOT pg_catalog.pg_try_advisory_xact_lock(
        1885825649, pg_catalog.hashtext(queue)
    ) THEN
        RETURN 0;
    END IF;
    RETURN (
        SELECT greatest(
            max_running - (
                SELECT count(*) FROM pgjobs_job
                WHERE status = 'RUNNING' AND queue_name = queue
                    -- A call of many jobs counts as one, by its first.
                    AND (
                        chunk ->> 'first' <> id::text
                        AND chunk ->> 'attempt' = life || ':' || attempts
                    ) IS NOT TRUE
            ),
            0
        )
        FROM pgjobs_queue WHERE name = queue
    );
END
$$;
