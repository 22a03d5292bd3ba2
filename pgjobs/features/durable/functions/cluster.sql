-- Return the number of the server's cluster, in which the ids of transactions count, or 0
-- if the server does not say.
CREATE OR REPLACE FUNCTION pgjobs_cluster() RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT system_identifier FROM pg_catalog.pg_control_system());
EXCEPTION WHEN insufficient_privilege OR undefined_function THEN
    RETURN 0;
END
$$;
