-- Return how a batch has ended, or UNFINISHED or GONE, and a job that decided it.
CREATE OR REPLACE FUNCTION pgjobs_batch_outcome(
    batch bigint, OUT outcome text, OUT culprit bigint, OUT failed bigint
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    failed := pgjobs_batch_has(batch, 'FAILED');
    IF coalesce(
        pgjobs_batch_has(batch, 'READY'),
        pgjobs_batch_has(batch, 'RUNNING'),
        pgjobs_batch_has(batch, 'WAITING'),
        pgjobs_batch_has(batch, 'SCHEDULED')
    ) IS NOT NULL THEN
        outcome := 'UNFINISHED';
    ELSE
        culprit := coalesce(failed, pgjobs_batch_has(batch, 'CANCELLED'));
        outcome := CASE
            WHEN failed IS NOT NULL THEN 'FAILED'
            WHEN culprit IS NOT NULL THEN 'CANCELLED'
            WHEN EXISTS (SELECT FROM pgjobs_batch WHERE id = batch) THEN 'SUCCESSFUL'
            ELSE 'GONE'  -- or it never existed
        END;
    END IF;
END
$$;
