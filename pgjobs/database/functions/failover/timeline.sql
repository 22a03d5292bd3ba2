-- Return the timeline of the server, as the eight digits with which the name of a file of
-- its log begins, or NULL if the server does not say: it may speak as PostgreSQL does,
-- but store in another way. On a timeline that is new to us, first leave out the numbers
-- that another server may have given.
--
-- A standby that takes over begins a new timeline. If it lagged behind, its sequences
-- go back. They would give lease tokens and ids of workers again that processes still
-- know from the lost server. So the first worker that connects moves these sequences
-- on, before it draws a number. The distance is another one for each timeline, because
-- several servers may be lost in a row. (The class of the lock is "pgjt" in ASCII.)
CREATE OR REPLACE FUNCTION pgjobs_timeline() RETURNS text
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
DECLARE
    timeline text;
    number bigint;
BEGIN
    BEGIN
        timeline := left(pg_walfile_name(pg_current_wal_lsn()), 8);
        number := ('x' || timeline)::bit(32)::bigint;
    EXCEPTION WHEN OTHERS THEN
        RETURN NULL;
    END;
    IF (SELECT last_value FROM pgjobs_known_timeline) <> number THEN
        PERFORM pg_advisory_xact_lock(x'70676a74'::int, 0);
        IF (SELECT last_value FROM pgjobs_known_timeline) <> number THEN
            PERFORM setval('pgjobs_lease_token', last_value + number * 4294967296)
            FROM pgjobs_lease_token;
            PERFORM setval('pgjobs_worker_id_seq', last_value + number * 1000)
            FROM pgjobs_worker_id_seq;
            PERFORM setval('pgjobs_known_timeline', number);
        END IF;
    END IF;
    RETURN timeline;
END
$$;
