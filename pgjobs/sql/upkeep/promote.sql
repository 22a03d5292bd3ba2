-- Make jobs READY whose time has come, or WAITING if they have to be admitted.
-- Return how many, and whether an admission has something to do, also because of rates.
-- statement_timestamp: it does not change meanwhile, so that the index ends the search.
WITH due AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE status = 'SCHEDULED' AND run_after <= statement_timestamp()
        AND (%(only)s::bigint[] IS NULL OR id = ANY (%(only)s::bigint[]))
        AND NOT id = ANY (%(skipped)s::bigint[])
    ORDER BY run_after, id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE pgjobs_job SET status = 'READY'
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING status
)
SELECT count(*),
    coalesce(bool_or(status = 'WAITING'), false)
        OR EXISTS (SELECT FROM pgjobs_rate WHERE opens_at <= statement_timestamp())
FROM promoted
