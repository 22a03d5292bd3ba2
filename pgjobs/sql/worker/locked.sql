-- Of these jobs of the worker, return the tokens of those that another transaction has
-- locked: to record their outcome would wait for it.
WITH free AS MATERIALIZED (
    SELECT id FROM pgjobs_job
    WHERE id = ANY (%(ids)s::bigint[])
    ORDER BY id
    FOR NO KEY UPDATE SKIP LOCKED
)
SELECT lease_token FROM pgjobs_job
WHERE id = ANY (%(ids)s::bigint[])
    AND worker_id = %(worker_id)s
    AND NOT id = ANY (ARRAY(SELECT id FROM free))
