-- Return the keys of a job with a deadline whose status changes. Each life has a new one,
-- which counts from when the job can first begin. Of a job that waits for predecessors
-- nobody knows yet when that is; once they let it go, a worker finds it.
CREATE OR REPLACE FUNCTION pgjobs_keys_of_life(before pgjobs_job, after pgjobs_job)
RETURNS jsonb LANGUAGE plpgsql STABLE
SET search_path FROM CURRENT
AS $$
DECLARE
    ends_at CONSTANT jsonb := pgjobs_ends_at(
        after.keys, greatest(after.run_after, clock_timestamp())
    );
BEGIN
    RETURN CASE
        WHEN after.status = 'WAITING' AND before.status <> 'WAITING'
            AND after.waiting_for IN ('predecessor', 'dependency')
            THEN after.keys - 'ends_at'
        WHEN after.life > before.life THEN after.keys || ends_at
        -- It was made due earlier, and has not begun.
        WHEN after.attempts = 0 AND before.status = 'SCHEDULED'
            AND after.keys -> 'ends_at' > ends_at -> 'ends_at'
            THEN after.keys || ends_at
        ELSE after.keys
    END;
END
$$;
