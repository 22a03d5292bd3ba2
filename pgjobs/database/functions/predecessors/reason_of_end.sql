-- Return the reason of a job that ends because of its predecessor's outcome.
CREATE OR REPLACE FUNCTION pgjobs_reason_of_end(
    needs text, outcome text, culprit bigint, batch bigint
) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT format('%s: %s %s.',
        CASE needs WHEN 'dependency' THEN 'Failed' ELSE 'Cancelled' END,
        CASE
            WHEN needs = 'failure' AND batch IS NOT NULL
                THEN 'no job of batch ' || batch
            WHEN outcome = 'GONE' AND batch IS NOT NULL THEN 'batch ' || batch
            WHEN batch IS NOT NULL AND culprit IS NULL
                THEN 'a job that was deleted from batch ' || batch
            WHEN batch IS NOT NULL THEN format('job %s of batch %s', culprit, batch)
            WHEN needs = 'dependency' THEN 'dependency job ' || culprit
            ELSE 'predecessor job ' || culprit
        END,
        CASE
            WHEN needs <> 'failure' AND outcome <> 'GONE' AND culprit IS NULL
                THEN 'had not succeeded'
            WHEN needs = 'failure' OR outcome = 'FAILED' THEN 'failed'
            WHEN outcome = 'CANCELLED' THEN 'was cancelled'
            ELSE 'is gone'
        END
    )
$$;
