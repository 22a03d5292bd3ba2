-- Return how a batch has ended, or UNFINISHED or GONE, and a job that decided it (NULL
-- if that was deleted).
CREATE OR REPLACE FUNCTION pgjobs_batch_outcome(
    batch bigint, OUT outcome text, OUT culprit bigint, OUT failed bigint
) LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_deleted text;
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
        SELECT outcome_of_deleted INTO of_deleted FROM pgjobs_batch WHERE id = batch;
        outcome := CASE
            WHEN failed IS NOT NULL OR of_deleted = 'FAILED' THEN 'FAILED'
            WHEN culprit IS NOT NULL OR of_deleted = 'CANCELLED' THEN 'CANCELLED'
            WHEN of_deleted IS NOT NULL THEN 'SUCCESSFUL'
            ELSE 'GONE'  -- or it never existed
        END;
    END IF;
END
$$;
