-- Return whether a worker is known to run the code of another one: both are of one release
-- of the project, the setting VERSION.
CREATE OR REPLACE FUNCTION pgjobs_has_code_of(worker bigint, other bigint)
RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM pgjobs_worker AS this JOIN pgjobs_worker AS that USING (version)
        WHERE this.id = worker AND that.id = other AND version <> ''
    );
END
$$;
