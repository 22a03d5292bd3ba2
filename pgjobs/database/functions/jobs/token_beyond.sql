-- Return a lease token that is higher than this one. The sequence moves on first if it
-- is behind: rows that were moved, loaded or replicated bring tokens that it never gave.
-- It does not move to the end of all numbers for the sake of one absurd row, and not for
-- a role that may only draw: then the token is a new one, but lower.
-- (The class of the lock is "pgjt" in ASCII, as in functions/failover/timeline.sql.)
CREATE OR REPLACE FUNCTION pgjobs_token_beyond(token bigint) RETURNS bigint
LANGUAGE plpgsql
SET search_path FROM CURRENT
AS $$
BEGIN
    IF token < 4611686018427387904
        AND has_sequence_privilege('pgjobs_lease_token', 'SELECT')
        AND has_sequence_privilege('pgjobs_lease_token', 'UPDATE')
    THEN
        PERFORM pg_advisory_xact_lock(x'70676a74'::int, 0);
        PERFORM setval('pgjobs_lease_token', token)
        FROM pgjobs_lease_token WHERE last_value < token;
    END IF;
    RETURN nextval('pgjobs_lease_token');
END
$$;
