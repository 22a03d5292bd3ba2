-- Record successes, and claim the first jobs in claim order.
--
-- All is done in one round trip and one commit. The fetch walks over the READY jobs of
-- all queues in claim order, behind the cursors, and locks one job after the other until
-- there are enough. It passes over the jobs that other transactions hold, that the worker
-- does not serve, or that have expired. A job of a paused or limited queue ends the walk,
-- and so does the scan limit. Then the worker goes on with claim_by_queue.sql. So no
-- fetch takes the queues for empty without having seen all that is READY.
WITH recorded AS (
    \ir record/success.sql
    RETURNING lease_token, line
),
-- The claim begins once this is there: while it waits for a row that it records, it must
-- hold no job that another transaction may want.
stored AS MATERIALIZED (
    SELECT array_agg(lease_token) AS lease_tokens,
        bool_or(line IS NOT NULL) AS has_keys, clock_timestamp() AS begun_at
    FROM recorded
),
\ir claim/in_order.sql
