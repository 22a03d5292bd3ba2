-- Return whether rows of other tables may belong to these jobs. Mostly none do, and one
-- look-up between the lowest and the highest id says so for all of them.
CREATE OR REPLACE FUNCTION pgjobs_has_rows(ids bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    low CONSTANT bigint := (SELECT min(id) FROM unnest(ids) AS id);
    high CONSTANT bigint := (SELECT max(id) FROM unnest(ids) AS id);
BEGIN
    RETURN high - low > 100 * cardinality(ids)
        OR EXISTS (SELECT FROM pgjobs_attempt WHERE job_id BETWEEN low AND high)
        OR EXISTS (SELECT FROM pgjobs_progress WHERE job_id BETWEEN low AND high)
        OR EXISTS (SELECT FROM pgjobs_step WHERE job_id BETWEEN low AND high)
        OR EXISTS (SELECT FROM pgjobs_wait WHERE job_id BETWEEN low AND high)
        OR EXISTS (SELECT FROM pgjobs_answer WHERE job_id BETWEEN low AND high)
        OR EXISTS (SELECT FROM pgjobs_tick WHERE job_id BETWEEN low AND high);
END
$$;
