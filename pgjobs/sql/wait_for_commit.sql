-- Wait for a COMMIT that went unheard: until no transaction holds the row of the job.
-- The server may not know yet that it is alone. Whoever recorded the job by then would
-- wait as long.
SELECT id FROM pgjobs_job
WHERE id = %(id)s AND lease_token = %(lease_token)s AND worker_id IS NOT NULL
FOR NO KEY UPDATE
