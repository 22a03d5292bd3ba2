-- Return the tokens of those of the worker's jobs that another transaction has locked.
-- Recording their outcomes would wait for it.
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
