-- Make the jobs READY whose time has come; say whether there may be more. Those that
-- wait for a rate go as its tokens allow.
-- statement_timestamp: it stands still, so that the index ends the search.
WITH due AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE status = 'SCHEDULED' AND run_after <= statement_timestamp()
    ORDER BY run_after, id
    LIMIT %(limit)s
    FOR NO KEY UPDATE SKIP LOCKED
),
promoted AS (
    UPDATE pgjobs_job SET status = 'READY'
    WHERE id = ANY (ARRAY(SELECT id FROM due))
    RETURNING id
),
due_rate AS MATERIALIZED (
    SELECT DISTINCT rate_key FROM (
        SELECT rate_key FROM pgjobs_hold
        WHERE state = 'rate' AND opens_at <= statement_timestamp()
        ORDER BY opens_at
        LIMIT %(limit)s
    ) AS hold
),
settled AS MATERIALIZED (
    SELECT pgjobs_settle('rate', rate_key) AS let_go FROM due_rate
)
SELECT count(*), (SELECT sum(let_go) FROM settled) FROM promoted
