-- Return any job of the batch with this status. (Asking for the first one would tempt
-- the planner to walk the primary key.)
CREATE OR REPLACE FUNCTION pgjobs_batch_has(batch bigint, wanted text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN id FROM pgjobs_job WHERE batch_id = batch AND status = wanted LIMIT 1;
END
$$;
