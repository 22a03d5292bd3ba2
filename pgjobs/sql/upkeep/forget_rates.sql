-- Delete a batch of the rates that have all their tokens. A rate without a row has all.
-- SKIP LOCKED: another transaction takes a token right now.
WITH full_rate AS MATERIALIZED (
    SELECT key FROM pgjobs_rate
    WHERE full_at < clock_timestamp() AND opens_at IS NULL
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM pgjobs_rate WHERE key = ANY (ARRAY(SELECT key FROM full_rate))
    RETURNING key
)
SELECT count(*) FROM deleted
