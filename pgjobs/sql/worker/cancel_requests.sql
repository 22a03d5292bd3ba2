-- The running jobs of a worker that were asked to stop.
SELECT lease_token FROM pgjobs_job
WHERE status = 'RUNNING'
    AND worker_id = %(worker_id)s
    AND cancel_requested_at IS NOT NULL
